"""Encoders publish into a room: ffmpeg by RTMP, Chromium and aiortc by WHIP. LiveKit's Python SDK receives and checks the media.

    scripts/check ingress

An encoder's video has a colour, and its audio a tone, which must arrive. No ffmpeg process may be left when an encoder
or the server is gone. No traffic leaves the machine.

Needs ffmpeg and Chromium (Debian: ffmpeg, chromium); the Python SDK is installed as by scripts/check clients, and aiortc beside it. Exits 0 only if
everything held, and 77 if something is missing and cannot be installed.
"""

import asyncio
import math
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from livekit import rtc

from ..support import preparation
from ..support.browser import Browser, Pages
from ..support.native import Native
from ..support.pushing import H264, push
from ..support.receiver import Receiver
from ..support.server import CallServer, Rtmp
from ..support.telling import Telling, wait_for

# WHIP encoder for files.
AIORTC = "aiortc==1.16.0"
# The encoders' tone in hertz, and its smallest share of the received audio energy.
TONE, PURITY = 440, 0.8
# Colour of their video in RGB, and the largest deviation of the received colour.
COLOUR, DEVIATION = (200, 40, 40), 40
SAMPLES_PER_SECOND = 48_000
B_PICTURES = ["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "30", "-bf", "2", "-b_strategy", "0"]
# WHIP encoders with transcoding: only the first frame is a key frame, and the profile is not decodable by every receiver.
LONG = ["-c:v", "libx264", "-preset", "veryfast", "-x264-params", "keyint=infinite:scenecut=0"]
INTRA_REFRESH = [*LONG[:-1], LONG[-1] + ":intra-refresh=1:bframes=0", "-pix_fmt", "yuv420p"]
TEN_BITS = [*LONG, "-bf", "2", "-pix_fmt", "yuv420p10le"]
# Time limit for a viewer's first transcoded frame in seconds: the key frame interval, and a reserve for a busy machine.
PATIENCE = 5
OTHER_CODEC = ["-c:v", "flv1", "-b:v", "2M", "-g", "30"]


def children(pid):
    """Returns the ffmpeg processes that a process has started."""
    listed = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "ffmpeg" in line]


def is_alive(pid):
    try:
        return not Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        # ProcessLookupError: the process has ended after its file was opened.
        return False


def listener():
    """Returns a client that analyses the received media."""
    class Listener(Native):
        async def look_at(self, stream, received):
            async for event in stream:
                received["framesShown"] += 1
                if isinstance(event, rtc.VideoFrameEvent) and received["framesShown"] % 10 == 0:
                    frame = event.frame.convert(rtc.VideoBufferType.RGB24)
                    middle = (frame.height // 2 * frame.width + frame.width // 2) * 3
                    received["colour"], received["size"] = tuple(bytes(frame.data)[middle:middle + 3]), (frame.width, frame.height)
                elif isinstance(event, rtc.AudioFrameEvent):
                    frame = event.frame
                    samples = memoryview(frame.data).cast("B").cast("h")[:: frame.num_channels]
                    received["purity"] = purity(samples, frame.sample_rate)
                await asyncio.sleep(0)

    return Listener("listener")


def purity(samples, rate):
    """Returns the tone's share of the samples' energy."""
    # Whole periods of the tone, over several packets of samples.
    total = sum(sample * sample for sample in samples)
    if total == 0:
        return 0
    turns = [2 * math.pi * TONE * index / rate for index in range(len(samples))]
    real = sum(sample * math.cos(turn) for sample, turn in zip(samples, turns))
    imaginary = sum(sample * math.sin(turn) for sample, turn in zip(samples, turns))
    return min(1, (real * real + imaginary * imaginary) * 2 / (len(samples) * total))


class Check:
    def __init__(self, conclave, browser, ears):
        self.conclave, self.browser, self.ears = conclave, browser, ears

    @contextmanager
    def room(self, name, input_type, transcoding=False):
        """A room with an endpoint, and the listener in it."""
        self.conclave.request("POST", "/v1/rooms", {"name": name})
        body = {"input_type": input_type, "participant_identity": "encoder", "enable_transcoding": transcoding}
        ingress = self.conclave.request("POST", f"/v1/rooms/{name}/ingress", body)
        self.listen(name)
        try:
            yield ingress, ingress["url"].replace("REDACTED", ingress["stream_key"])
        finally:
            self.ears.call("leave")
            self.conclave.request("DELETE", f"/v1/rooms/{name}")

    def listen(self, room):
        """Connects the listener, or reconnects it."""
        token = self.conclave.request("POST", "/v1/tokens", {"room": room, "identity": "listener", "role": "host"})
        self.ears.call("join", url=self.conclave.ready["media_url"], token=token["token"])

    def wait_of_viewers(self, room):
        """Returns the longest wait of joining viewers for the first frame."""
        waits = []
        for _ in range(4):
            self.listen(room)
            begun = time.monotonic()
            wait_for("pictures arrive", lambda: self.ears.inbound.get("encoder video", {}).get("framesShown", 0) > 0)
            waits.append(time.monotonic() - begun)
        assert max(waits) < PATIENCE, f"a viewer waits {max(waits):.1f} s for a picture"
        return max(waits)

    def status(self, ingress):
        return self.conclave.request("GET", f"/v1/ingress/{ingress['ingress_id']}")["status"]

    def watch(self, has_tone=True):
        """Waits for video and audio, and returns their properties."""
        def inbound(kind):
            return self.ears.inbound.get(f"encoder {kind}", {})

        def is_red():
            colour = inbound("video").get("colour", (0, 0, 0))
            return all(abs(seen - sent) <= DEVIATION for seen, sent in zip(colour, COLOUR))

        wait_for("pictures arrive", lambda: inbound("video").get("framesShown", 0) >= 30)
        wait_for("sound arrives", lambda: inbound("audio").get("framesShown", 0) >= 50)
        if has_tone:
            wait_for(f"the colour is right: {inbound('video')}", is_red, 5)
            wait_for(f"the tone is right: {inbound('audio')}", lambda: inbound("audio").get("purity", 0) >= PURITY, 5)
        return f"{inbound('video').get('size')} {inbound('video').get('colour')}, tone {inbound('audio').get('purity', 0):.2f}"

    def rtmp(self, name, video, processes):
        with self.room(name, "rtmp") as (ingress, url):
            with push(url, COLOUR, TONE, video):
                seen = self.watch()
                assert self.status(ingress) == "publishing", self.status(ingress)
                running = children(self.conclave.process.pid)
                assert len(running) == processes, f"{len(running)} processes of ffmpeg, not {processes}"
            wait_for("the endpoint is inactive", lambda: self.status(ingress) == "inactive")
            wait_for("ffmpeg is gone", lambda: not any(map(is_alive, running)))
            return seen

    def ffmpeg_dies(self):
        with self.room("dies", "rtmp") as (ingress, url), push(url, COLOUR, TONE, H264):
            self.watch()
            (before,) = children(self.conclave.process.pid)
            os.kill(before, 9)
            wait_for("ffmpeg is started again", lambda: [pid for pid in children(self.conclave.process.pid) if pid != before])
            heard = self.ears.inbound["encoder audio"]["framesShown"]
            wait_for("sound arrives again", lambda: self.ears.inbound["encoder audio"]["framesShown"] > heard + 50)
            assert self.status(ingress) == "publishing"
            return "sound goes on"

    def whip(self, codec):
        with self.room(f"whip-{codec}", "whip") as (ingress, url):
            self.browser.call("whip", url=url, codec=codec)
            seen = self.watch(has_tone=False)
            assert self.status(ingress) == "publishing", self.status(ingress)
            self.browser.call("whipRestart")
            frames = self.ears.inbound["encoder video"]["framesShown"]
            wait_for("pictures arrive after ICE was restarted", lambda: self.ears.inbound["encoder video"]["framesShown"] > frames + 60)
            assert self.browser.call("whipStop") == 200
            wait_for("the endpoint is inactive", lambda: self.status(ingress) == "inactive", 5)
            return seen

    def whip_transcoded(self, codec):
        """Chromium sends a key frame only on request, and no viewer's request reaches it."""
        name = f"transcoded-{codec}"
        with self.room(name, "whip", transcoding=True) as (ingress, url):
            self.browser.call("whip", url=url, codec=codec)
            seen = self.watch(has_tone=False)
            assert self.status(ingress) == "publishing", self.status(ingress)
            self.browser.call("whipRestart")
            longest = self.wait_of_viewers(name)
            (running,) = children(self.conclave.process.pid)
            os.kill(running, 9)
            wait_for("ffmpeg is started again", lambda: [pid for pid in children(self.conclave.process.pid) if pid != running])
            frames = self.ears.inbound["encoder video"]["framesShown"]
            wait_for("pictures arrive again", lambda: self.ears.inbound["encoder video"]["framesShown"] > frames + 30)
            assert self.browser.call("whipStop") == 200
            wait_for("the endpoint is inactive", lambda: self.status(ingress) == "inactive", 5)
            wait_for("ffmpeg is gone", lambda: not children(self.conclave.process.pid))
            return f"{seen}, a viewer waits {longest:.1f} s"

    def whip_of_a_file(self, name, video):
        """The frames of a file, with only the first frame as a key frame."""
        with tempfile.TemporaryDirectory() as folder, self.room(name, "whip", transcoding=True) as (ingress, url):
            file = Path(folder) / "pictures.ts"
            picture = "color=c=0x%02x%02x%02x:size=640x360:rate=30" % COLOUR
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", picture, "-t", "120", *video, file], check=True)
            program = Path(__file__).resolve().parent / "whip_encoder.py"
            encoder = subprocess.Popen([sys.executable, program, url, file, str(TONE)], stdin=subprocess.PIPE)
            try:
                seen = self.watch()
                assert self.status(ingress) == "publishing", self.status(ingress)
                longest = self.wait_of_viewers(name)
            finally:
                encoder.stdin.close()
                encoder.wait(20)
            wait_for("the endpoint is inactive", lambda: self.status(ingress) == "inactive", 5)
            wait_for("ffmpeg is gone", lambda: not children(self.conclave.process.pid))
            return f"{seen}, a viewer waits {longest:.1f} s"

    def the_server_is_killed(self):
        with self.room("killed", "rtmp") as (ingress, url):
            with push(url, COLOUR, TONE, B_PICTURES):
                self.watch()
                running = children(self.conclave.process.pid)
                self.conclave.kill()
                wait_for("no ffmpeg is left", lambda: not any(map(is_alive, running)))
            self.conclave.start()
            wait_for("the endpoint is inactive", lambda: self.status(ingress) == "inactive")
            # The encoder reconnects.
            with push(url, COLOUR, TONE, H264):
                wait_for("the encoder publishes again", lambda: self.status(ingress) == "publishing")
            return f"{len(running)} processes of ffmpeg ended with the server"


def main():
    if not preparation.has_package(AIORTC):
        preparation.skip(f"the package {AIORTC} of Python cannot be installed")
    server = CallServer(preparation.program(), Receiver().url, network=Rtmp())
    pages = Pages()
    browser, ears = Browser("chromium", pages, "chromium"), listener()
    try:
        check, telling = Check(server, browser, ears), Telling()
        telling.tell("ffmpeg pushes H.264 and AAC by RTMP", check.rtmp, "passes", H264, 1)
        telling.tell("ffmpeg pushes H.264 with B pictures", check.rtmp, "b-pictures", B_PICTURES, 2)
        telling.tell("ffmpeg pushes another codec", check.rtmp, "other", OTHER_CODEC, 2)
        telling.tell("the ffmpeg of an encoder is killed", check.ffmpeg_dies)
        telling.tell("Chromium publishes VP8 by WHIP", check.whip, "vp8")
        telling.tell("Chromium publishes H.264 by WHIP", check.whip, "h264")
        for codec in ("vp8", "h264", "vp9", "av1"):
            telling.tell(f"Chromium publishes {codec} by WHIP, which is transcoded", check.whip_transcoded, codec)
        telling.tell("H.264 with intra refresh by WHIP is transcoded", check.whip_of_a_file, "intra", INTRA_REFRESH)
        telling.tell("H.264 with 10 bits and B pictures by WHIP is transcoded", check.whip_of_a_file, "ten-bits", TEN_BITS)
        telling.tell("the server is killed while an encoder publishes", check.the_server_is_killed)
    finally:
        browser.close()
        ears.close()
        server.stop()
    return telling.end()

