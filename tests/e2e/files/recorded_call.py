"""Calls whose participants have known colors and tones, and their recordings and broadcasts."""

import asyncio
import math
import struct
import subprocess
import time

from livekit import rtc

from ..support.media_files import SAMPLES_PER_SECOND

WIDTH, HEIGHT, FRAMES_PER_SECOND = 640, 360, 15
SAMPLES = 480
RED, GREEN, BLUE = (200, 40, 40), (40, 160, 40), (40, 40, 200)
FINAL = ("complete", "failed", "aborted", "limit_reached")
# Interval and length of a beat, a white frame with a tone, in seconds.
BEAT, BEAT_LENGTH = 2, 0.2
# Largest difference between the durations of a file and its recording, in seconds.
DURATION = 0.5


class Participant:
    """A participant with one color and one tone. With a beat, the camera flashes during the tone."""

    def __init__(self, conclave, room, identity, color, tone, beat=False, codec="vp8"):
        self.conclave, self.room_name, self.identity = conclave, room, identity
        self.color, self.tone, self.beat, self.codec, self.loudness = color, tone, beat, codec, 8_000
        self.tasks = []

    async def join(self):
        token = await asyncio.to_thread(self.conclave.token, self.room_name, self.identity)
        self.room = rtc.Room()
        await self.room.connect(token["url"], token["token"], rtc.RoomOptions(auto_subscribe=False))
        return self

    async def publish(self, camera=True, microphone=True):
        local = self.room.local_participant
        if camera:
            source = rtc.VideoSource(WIDTH, HEIGHT)
            self.camera_track = rtc.LocalVideoTrack.create_video_track("camera", source)
            codec = rtc.VideoCodec.H264 if self.codec == "h264" else rtc.VideoCodec.VP8
            options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_CAMERA, simulcast=True, video_codec=codec)
            self.camera = await local.publish_track(self.camera_track, options)
            self.tasks.append(asyncio.create_task(self.film(source)))
        if microphone:
            # A long queue would delay the audio.
            source = rtc.AudioSource(SAMPLES_PER_SECOND, 1, queue_size_ms=40)
            self.microphone_track = rtc.LocalAudioTrack.create_audio_track("microphone", source)
            options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
            self.microphone = await local.publish_track(self.microphone_track, options)
            self.tasks.append(asyncio.create_task(self.speak(source)))
        return self

    def is_beating(self):
        return time.time() % BEAT < BEAT_LENGTH

    async def film(self, source):
        plain, white = (bytes([*color, 255]) * (WIDTH * HEIGHT) for color in (self.color, (255, 255, 255)))
        due = time.monotonic()
        while True:
            picture = white if self.beat and self.is_beating() else plain
            source.capture_frame(rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGBA, picture))
            due += 1 / FRAMES_PER_SECOND
            await asyncio.sleep(max(0, due - time.monotonic()))

    async def speak(self, source):
        sent = 0
        while True:
            loudness = self.loudness if not self.beat or self.is_beating() else 0
            phase = lambda sample: 2 * math.pi * self.tone * (sent + sample) / SAMPLES_PER_SECOND
            wave = b"".join(struct.pack("<h", int(loudness * math.sin(phase(sample)))) for sample in range(SAMPLES))
            sent += SAMPLES
            await source.capture_frame(rtc.AudioFrame(wave, SAMPLES_PER_SECOND, 1, SAMPLES))

    async def leave(self):
        for task in self.tasks:
            task.cancel()
        await self.room.disconnect()


class Call:
    """A room with participants that have published."""

    def __init__(self, conclave, *participants):
        self.conclave, self.room = conclave, f"files-{time.monotonic_ns()}"
        self.participants = [Participant(conclave, self.room, *participant) for participant in participants]

    async def __aenter__(self):
        for participant in self.participants:
            await (await participant.join()).publish()
        await asyncio.sleep(1.5)
        return self

    async def __aexit__(self, *_):
        for participant in self.participants:
            await participant.leave()
        await self.request("DELETE", f"/v1/rooms/{self.room}")

    def request(self, *arguments):
        return asyncio.to_thread(self.conclave.request, *arguments)

    def start(self, kind="recordings", **body):
        return self.request("POST", f"/v1/rooms/{self.room}/{kind}", body)

    async def record(self, seconds, **body):
        """Records for a while, and returns the file and its record."""
        recording = await self.start(**body)
        await asyncio.sleep(seconds)
        ended = await self.stop(recording)
        assert ended["status"] == "complete", ended
        return self.conclave.file_of(ended), ended

    async def stop(self, egress, kind="recordings"):
        await self.request("POST", f"/v1/{kind}/{egress['egress_id']}/stop")
        return await self.end(egress, kind)

    async def end(self, egress, kind="recordings", seconds=30):
        return await self.status(egress, FINAL, kind, seconds)

    async def status(self, egress, statuses, kind="recordings", seconds=30):
        for _ in range(seconds * 5):
            now = await self.request("GET", f"/v1/{kind}/{egress['egress_id']}")
            if now["status"] in statuses:
                return now
            await asyncio.sleep(0.2)
        raise AssertionError(f"not {statuses} within {seconds} s: {now}")


def ffmpegs(server):
    """Returns a server's running ffmpeg processes."""
    found = subprocess.run(["pgrep", "-P", str(server), "ffmpeg"], capture_output=True, text=True).stdout.split()
    return [int(pid) for pid in found]
