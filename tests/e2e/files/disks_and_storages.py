"""Recordings during failures of storages and disks, and a recording of a browser."""

import asyncio
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from livekit import rtc

from ..support import preparation
from ..support.browser import Browser, Pages
from ..support.media_files import assert_color, assert_tone, streams
from ..support.server import CallServer
from . import storage
from .recorded_call import HEIGHT, RED, WIDTH, Call, Participant

# Color and tone of the page.
TEAL, TONE = (20, 140, 140), 660
SECRET = "wJalrXUtnFEMIK7MDENG"
# Bit rate at which a recording of noise reaches several parts after some seconds, in kbit/s.
HIGH_KBPS = 12_000


class Noise(Participant):
    """A participant whose camera shows noise, which no encoder compresses well."""

    async def film(self, source):
        while True:
            # Squares of noise, so that some of it remains in all layers.
            rows = [b"".join(os.urandom(4) * 8 for _ in range(WIDTH // 8)) for _ in range(HEIGHT // 8)]
            picture = b"".join(row * 8 for row in rows)
            source.capture_frame(rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGBA, picture))
            await asyncio.sleep(1 / 15)


class NoiseCall(Call):
    """A call of one participant with noise."""

    def __init__(self, conclave):
        super().__init__(conclave)
        self.participants = [Noise(conclave, self.room, "alice", RED, 440)]


class Settings:
    """A scenario's server settings."""

    def __init__(self, **settings):
        self.values = {f"CONCLAVE_{name.upper()}": str(value) for name, value in settings.items()}

    def settings(self):
        return self.values


@contextmanager
def server(conclave, **settings):
    """Returns another server with other settings."""
    other = CallServer(conclave.program, network=Settings(**settings))
    try:
        yield other
    finally:
        other.stop()


async def uploads_survive_cut_connections_and_kills(conclave):
    """Parts arrive although connections are cut, even after a kill in the middle of an upload; then the local file is removed."""
    if not await asyncio.to_thread(preparation.has_package, storage.MOTO):
        return "skipped: moto cannot be installed"
    bucket = await asyncio.to_thread(storage.Storage, "calls")
    connection = storage.Connection(bucket.port)
    try:
        with server(conclave, egress__video_kbps=HIGH_KBPS) as own:
            return await upload(own, bucket, connection)
    finally:
        connection.stop()
        bucket.stop()


async def upload(conclave, bucket, connection):
    (template,) = conclave.request("GET", "/v1/templates")["templates"]
    config = {
        "type": "s3", "bucket": "calls", "prefix": "2026", "endpoint": f"http://127.0.0.1:{connection.port}",
        "force_path_style": True, "access_key": "check", "secret": SECRET,
    }
    destination = {"name": "archive", "kind": "recording", "config": config}
    conclave.request("POST", f"/v1/templates/{template['id']}/destinations", destination)
    async with NoiseCall(conclave) as call:
        whole = await record(call, "whole.mp4", 12)
        # In the middle of the first part, and of the second.
        connection.cuts = [3_000_000, 1_000_000]
        ended = await call.stop(whole)
        assert ended["status"] == "complete" and connection.cut == 2, (ended, connection.cut)
        size = check_object(conclave, bucket, ended, 12)
        late = await record(call, "late.mp4", 6)
        connection.is_open.clear()
        passed = connection.passed
        await call.request("POST", f"/v1/recordings/{late['egress_id']}/stop")
        while connection.passed < passed + 1_000_000:
            await asyncio.sleep(0.1)
        assert (await call.status(late, ["ending"]))["status"] == "ending"
        await asyncio.to_thread(conclave.kill)
        connection.is_open.set()
        await asyncio.to_thread(conclave.start)
        ended = await call.end(late)
        assert ended["status"] == "complete", ended
        check_object(conclave, bucket, ended, 6)
        assert not bucket.has_incomplete_uploads(), "an upload in parts is left"
        log = conclave.log.read_text()
        assert SECRET not in log, "the log has the secret"
    return f"{size / 2**20:.0f} MiB in parts, 2 connections cut, 1 kill"


async def record(call, filepath, seconds):
    body = {"type": "participant", "identity": "alice", "filepath": filepath, "destination": "archive"}
    recording = await call.start(**body)
    await asyncio.sleep(seconds)
    return recording


def check_object(conclave, bucket, recording, seconds):
    """The object plays, and the local file is removed."""
    uploaded = bucket.object(f"2026/{recording['filepath']}")
    copy = conclave.folder / "copy.mp4"
    copy.write_bytes(uploaded)
    codecs, duration = streams(copy)
    assert codecs == ["h264", "aac"] and abs(duration - seconds) < 1.5, (codecs, duration)
    assert not conclave.file_of(recording).exists(), "the file is left"
    return len(uploaded)


async def a_browser_is_recorded(conclave):
    """Chromium's video and audio are in the file."""
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        return "skipped: Chromium is not installed"
    pages, call = Pages(), Call(conclave)
    browser = Browser("chromium", pages, "chromium")
    act = lambda action, **options: asyncio.to_thread(browser.call, action, **options)
    try:
        async with call:
            token = await asyncio.to_thread(conclave.token, call.room, "browser")
            await act("join", url=token["url"], token=token["token"], single=True)
            await act("paint", color=" ".join(map(str, TEAL)), tone=TONE)
            await asyncio.sleep(2)
            file, _ = await call.record(8, type="room_composite", layout="grid")
            await act("leave")
        assert_color(file, 5, 0.5, 0.2, TEAL)
        assert_tone(file, 5, TONE)
    finally:
        browser.close()
    return "its color and its tone"


class Viewer:
    """A participant that counts the received video frames."""

    def __init__(self):
        self.room, self.seen, self.tasks = rtc.Room(), 0, []
        self.room.on("track_subscribed", self.subscribed)

    def subscribed(self, track, *_):
        if track.kind == rtc.TrackKind.KIND_VIDEO:
            self.tasks.append(asyncio.create_task(self.count(rtc.VideoStream(track))))

    async def count(self, stream):
        async for _ in stream:
            self.seen += 1

    async def join(self, conclave, room):
        token = await asyncio.to_thread(conclave.token, room, "viewer")
        await self.room.connect(token["url"], token["token"], rtc.RoomOptions(auto_subscribe=True))

    async def leave(self):
        for task in self.tasks:
            task.cancel()
        await self.room.disconnect()


@contextmanager
def small_disk(directory):
    """Returns settings for a disk of 4 MB: a file system in memory if it can be mounted, otherwise a limit of the file size."""
    disk = Path(directory) / "disk"
    disk.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode == 0:
        try:
            yield {"recordings__dir": disk}, "No space left on device"
        finally:
            subprocess.run(["umount", str(disk)], check=True)
        return
    limited = Path(directory) / "ffmpeg-with-limit"
    # In blocks of 512 bytes. Without the signal, writes fail instead of killing ffmpeg.
    limited.write_text('#!/bin/sh\ntrap "" XFSZ\nulimit -f 8192\nexec ffmpeg "$@"\n')
    limited.chmod(0o755)
    yield {"egress__ffmpeg": limited}, "File too large"


async def a_full_disk_fails_the_recording_and_not_the_call(conclave):
    with small_disk(conclave.folder) as (settings, reason):
        with server(conclave, egress__video_kbps=HIGH_KBPS, **settings) as own:
            async with NoiseCall(own) as call:
                viewer = Viewer()
                await viewer.join(own, call.room)
                recording = await call.start(type="room_composite", layout="grid")
                ended = await call.end(recording, seconds=60)
                assert ended["status"] == "failed" and reason in ended["error"], ended
                before = viewer.seen
                await asyncio.sleep(3)
                assert viewer.seen > before + 15, f"the call does not go on: {viewer.seen - before} pictures in 3 s"
                await viewer.leave()
            root = Path(settings.get("recordings__dir", own.data / "recordings"))
            _, duration = streams(root / ended["project_id"] / ended["filepath"])
            assert duration > 1, duration
    return f"{ended['error']}; {duration:.0f} s play"


STORIES = [
    uploads_survive_cut_connections_and_kills,
    a_browser_is_recorded,
    a_full_disk_fails_the_recording_and_not_the_call,
]
