"""Destinations of recordings and broadcasts: RTMP receivers, and files for users of the API."""

import asyncio
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from ..support import preparation
from ..support.media_files import assert_color, assert_tone, streams
from ..support.pushing import RtmpReceiver
from ..support.settings import environment
from .recorded_call import RED, Call, ffmpegs


async def the_commands_of_the_page_get_a_file(conclave):
    page = (preparation.ROOT / "docs" / "recordings.md").read_text()
    commands = page.split("```bash\n")[1].split("\n```")[0]
    async with Call(conclave, ("alice", RED, 440)) as call:
        file, recording = await call.record(2, type="room_composite")
    with tempfile.TemporaryDirectory() as folder:
        names = {"API": conclave.ready["api"], "KEY": conclave.ready["api_key"], "EGRESS_ID": recording["egress_id"]}
        program = f'conclave() {{ "{conclave.program}" --data "{conclave.folder}/data" "$@"; }}\n'
        command = ["bash", "-euc", program + commands]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=folder, env=environment(names), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        [fetched] = Path(folder).iterdir()
        assert fetched.read_bytes() == file.read_bytes(), fetched
        link = done.stdout.split()[-1]
        with urllib.request.urlopen(link, timeout=30) as response:
            assert response.read() == file.read_bytes(), link


async def broadcasts_arrive(conclave):
    """Each receiver gets the stream; a receiver that is killed and returns gets it again, and delays no other."""
    one, two = (RtmpReceiver(conclave.folder, name) for name in ("one", "two"))
    async with Call(conclave, ("alice", RED, 440)) as call:
        broadcast = await call.start("broadcasts", urls=[one.url, two.url])
        await call.status(broadcast, ["active"], "broadcasts")
        await asyncio.sleep(6)
        metrics = await asyncio.to_thread(lambda: urllib.request.urlopen(f"{conclave.ready['admin']}/metrics").read().decode())
        shown = f'conclave_egress_connected_targets{{egress_id="{broadcast["egress_id"]}"}} 2'
        assert shown in metrics, [line for line in metrics.splitlines() if "conclave_egress" in line]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in ffmpegs(conclave.process.pid)]
        assert not any(b"rtmp" in command or b"secret-key" in command for command in commands), commands
        one.kill()
        await asyncio.sleep(3)
        one.listen()
        await asyncio.sleep(12)
        ended = await call.stop(broadcast, "broadcasts")
        assert ended["status"] == "complete", ended
        await asyncio.to_thread(two.process.wait, 20)
        one.process.terminate()
        await asyncio.to_thread(one.process.wait, 20)
        codecs, duration = streams(two.files[0])
        assert sorted(codecs) == ["aac", "h264"] and duration > 18, (codecs, duration)
        assert_color(two.files[0], 15, 0.5, 0.2, RED)
        assert_tone(two.files[0], 15, 440)
        assert streams(one.files[1])[1] > 3, "the receiver that came back has nothing"
        assert "secret-key" not in conclave.log.read_text()
    return f"{duration:.0f} s"


STORIES = [the_commands_of_the_page_get_a_file, broadcasts_arrive]
