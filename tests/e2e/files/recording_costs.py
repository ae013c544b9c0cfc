"""Cost of a minute of a recording or a broadcast: processor seconds and megabytes."""

import asyncio
import json
import os
import subprocess
import urllib.request
from pathlib import Path

from livekit import rtc

from ..support.pushing import RtmpReceiver
from .recorded_call import HEIGHT, RED, WIDTH, Call, Participant, ffmpegs

SECONDS, BASELINE = 60, 15
# Repeated moving frames, and their rate.
PICTURES, PER_SECOND = 60, 15


def film():
    source = f"testsrc2=size={WIDTH}x{HEIGHT}:rate={PER_SECOND}"
    command = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, "-frames:v", str(PICTURES), "-pix_fmt", "rgba", "-f", "rawvideo", "-"]
    pictures = subprocess.run(command, check=True, capture_output=True).stdout
    size = WIDTH * HEIGHT * 4
    return [pictures[number * size :][:size] for number in range(PICTURES)]


class Moving(Participant):
    """A participant whose camera shows a moving test pattern."""

    pictures = None

    async def film(self, source):
        Moving.pictures = Moving.pictures or film()
        loop = asyncio.get_running_loop()
        due, number = loop.time(), 0
        while True:
            picture = self.pictures[number % PICTURES]
            source.capture_frame(rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGBA, picture))
            number, due = number + 1, due + 1 / PER_SECOND
            await asyncio.sleep(max(0, due - loop.time()))


class MovingCall(Call):
    def __init__(self, conclave, count):
        super().__init__(conclave)
        self.participants = [Moving(conclave, self.room, f"user-{number}", RED, 440 + 110 * number) for number in range(count)]


def processor_seconds(server):
    """Returns the processor time of a server and its children, including ended ones, in seconds."""
    ticks = 0
    for pid, fields in [(server, slice(11, 15)), *((child, slice(11, 13)) for child in ffmpegs(server))]:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            # An ended child is included in the server's own time.
            continue
        ticks += sum(map(int, stat.rpartition(")")[2].split()[fields]))
    return ticks / os.sysconf("SC_CLK_TCK")


def dropped_frames(conclave, egress):
    url = f"{conclave.ready['admin']}/debug/actors/{egress['project_id']}/egress/{egress['egress_id']}"
    with urllib.request.urlopen(url, timeout=20) as response:
        return json.load(response)["state"]["progress"]["dropped_frames"]


async def cost(conclave, participants, kind, request):
    """Returns the processor seconds beyond the call's own, the megabytes, and the number of skipped frames."""
    server = conclave.process.pid
    receiver = RtmpReceiver(conclave.folder, "measured") if kind == "broadcasts" else None
    async with MovingCall(conclave, participants) as call:
        await asyncio.sleep(5)
        begun = processor_seconds(server)
        await asyncio.sleep(BASELINE)
        call_alone = (processor_seconds(server) - begun) / BASELINE * SECONDS
        begun = processor_seconds(server)
        body = {"urls": [receiver.url]} if receiver else request(call.participants[0])
        egress = await call.start(kind, **body)
        await asyncio.sleep(SECONDS)
        dropped = await asyncio.to_thread(dropped_frames, conclave, egress)
        ended = await call.stop(egress, kind)
        used = processor_seconds(server) - begun - call_alone
    assert ended["status"] == "complete", ended
    if receiver:
        await asyncio.to_thread(receiver.process.wait, 20)
    written = (receiver.files[0] if receiver else conclave.file_of(ended)).stat().st_size
    return used, written / 1e6, dropped


ROWS = {
    "track": (1, "recordings", lambda one: {"type": "track", "track_id": one.camera.sid}),
    "participant": (1, "recordings", lambda one: {"type": "participant", "identity": one.identity}),
    "grid-of-2": (2, "recordings", lambda one: {"type": "room_composite", "layout": "grid"}),
    "grid-of-4": (4, "recordings", lambda one: {"type": "room_composite", "layout": "grid"}),
    "audio-of-2": (2, "recordings", lambda one: {"type": "room_composite", "audio_only": True}),
    "broadcast-of-2": (2, "broadcasts", None),
}


async def measure(conclave, chosen):
    """Prints the table's rows."""
    for name in chosen or ROWS:
        used, megabytes, dropped = await cost(conclave, *ROWS[name])
        note = f", {dropped} pictures left out" if dropped else ""
        print(f"| {name.replace('-', ' ')} | {used:.0f} s | {megabytes:.1f} MB |{note}", flush=True)
    return 0
