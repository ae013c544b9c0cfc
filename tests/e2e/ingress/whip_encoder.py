"""A WHIP encoder that sends the H.264 of a file unchanged, and a tone: a stream that no browser would send.

    whip_encoder.py URL FILE TONE

It ends its session when its standard input is closed. Needs aiortc.
"""

import asyncio
import sys
import urllib.request
from urllib.parse import urljoin

from aiortc import RTCPeerConnection, RTCRtpSender, RTCSessionDescription
from aiortc.contrib.media import MediaPlayer


def request(method, url, sdp=None):
    headers = {"content-type": "application/sdp"} if sdp else {}
    with urllib.request.urlopen(urllib.request.Request(url, sdp and sdp.encode(), headers, method=method)) as response:
        return response.read().decode(), response.headers


async def main(url, file, tone):
    connection = RTCPeerConnection()
    pictures, sound = MediaPlayer(file, decode=False, loop=True), MediaPlayer(f"sine=frequency={tone}:sample_rate=48000", format="lavfi")
    sender = connection.addTransceiver(pictures.video, direction="sendonly")
    sender.setCodecPreferences([codec for codec in RTCRtpSender.getCapabilities("video").codecs if codec.mimeType == "video/H264"])
    connection.addTransceiver(sound.audio, direction="sendonly")
    await connection.setLocalDescription(await connection.createOffer())
    answer, headers = await asyncio.to_thread(request, "POST", url, connection.localDescription.sdp)
    await connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    await asyncio.to_thread(sys.stdin.read)
    await asyncio.to_thread(request, "DELETE", urljoin(url, headers["location"]))
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
