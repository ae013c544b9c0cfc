"""Recordings when ffmpeg or the server stops."""

import asyncio
import os
import signal
from pathlib import Path

from ..support.media_files import assert_color, streams
from .recorded_call import RED, Call, ffmpegs


async def the_death_of_ffmpeg_fails_the_recording(conclave):
    """The recorded part plays, and the record contains the reason of the failure. A decoder's death fails no recording."""
    async with Call(conclave, ("alice", RED, 440, False, "h264")) as call:
        track = await call.start(type="track", track_id=call.participants[0].camera.sid)
        await asyncio.sleep(6)
        os.kill(ffmpegs(conclave.process.pid)[0], signal.SIGKILL)
        ended = await call.end(track)
        # A publisher sends key frames on request, and none was requested.
        assert ended["status"] == "failed" and streams(conclave.file_of(ended))[1] > 3, ended
        recording = await call.start(type="room_composite")
        await asyncio.sleep(6)
        command = lambda pid: Path(f"/proc/{pid}/cmdline").read_bytes()
        encoder = [pid for pid in ffmpegs(conclave.process.pid) if b"frag_keyframe" in command(pid)]
        decoders = [pid for pid in ffmpegs(conclave.process.pid) if b"rawvideo" in command(pid)]
        os.kill(decoders[0], signal.SIGKILL)
        await asyncio.sleep(3)
        await call.status(recording, ["active"])
        os.kill(encoder[0], signal.SIGKILL)
        ended = await call.end(recording)
        assert ended["status"] == "failed" and "ffmpeg" in ended["error"], ended
        file = conclave.file_of(ended)
        assert streams(file)[1] > 4, streams(file)
        assert_color(file, 4, 0.5, 0.2, RED)
        await asyncio.sleep(1)
        assert not ffmpegs(conclave.process.pid), "ffmpeg is left"
    return ended["error"]


async def the_death_of_the_server_leaves_a_file_that_plays(conclave):
    """After a restart the record has failed, and no ffmpeg is left."""
    call = Call(conclave, ("alice", RED, 440))
    await call.__aenter__()
    recording = await call.start(type="room_composite")
    await asyncio.sleep(8)
    children = ffmpegs(conclave.process.pid)
    assert children
    conclave.kill()
    await asyncio.sleep(3)
    left = [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert not left, f"ffmpeg is left: {left}"
    await asyncio.to_thread(conclave.start)
    ended = await call.end(recording)
    assert ended["status"] == "failed" and "restarted" in ended["error"], ended
    file = conclave.file_of(ended)
    assert streams(file)[1] > 5, streams(file)
    assert_color(file, 4, 0.5, 0.2, RED)
    for task in call.participants[0].tasks:
        task.cancel()
    return ended["error"]


async def a_stop_of_the_server_completes_what_it_records(conclave):
    """After a restart the records are complete with their files, and no ffmpeg is left."""
    call = Call(conclave, ("alice", RED, 440))
    await call.__aenter__()
    recordings = [await call.start(type="room_composite")]
    recordings.append(await call.start(type="track", track_id=call.participants[0].camera.sid))
    await asyncio.sleep(8)
    children = ffmpegs(conclave.process.pid)
    await asyncio.to_thread(conclave.terminate)
    left = [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert children and not left, f"ffmpeg is left: {left} of {children}"
    await asyncio.to_thread(conclave.start)
    for recording in recordings:
        ended = await call.end(recording)
        assert ended["status"] == "complete", ended
        assert_color(conclave.file_of(ended), 6, 0.5, 0.2, RED)
    for task in call.participants[0].tasks:
        task.cancel()
    return f"{streams(conclave.file_of(ended))[1]:.0f} s"


STORIES = [
    the_death_of_ffmpeg_fails_the_recording,
    the_death_of_the_server_leaves_a_file_that_plays,
    a_stop_of_the_server_completes_what_it_records,
]
