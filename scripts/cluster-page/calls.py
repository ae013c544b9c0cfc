"""A call on the embedded media plane whose server is killed goes on at the next one, with the same url and tokens."""

import asyncio
import json
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import page
from files import fail
from livekit import rtc

# The most seconds from the kill until media arrives again.
LIMIT = 15
WIDTH, HEIGHT = 320, 180


class CallNode(page.Node):
    """A server that clients of calls reach on this machine, each with media ports of its own."""

    def __init__(self, binary, folder, database, api, public):
        super().__init__(binary, folder, database, api)
        self.env |= {
            "CONCLAVE_MEDIA__PUBLIC_URL": f"ws://127.0.0.1:{public}",
            "CONCLAVE_MEDIA__RTC__LOOPBACK": "true",
            "CONCLAVE_MEDIA__RTC__UDP_PORTS": str(page.free_port()),
        }


def command(node, config, *arguments):
    line = [node.binary, "--config", config, "--data", node.data, *arguments, "--json"]
    return json.loads(subprocess.run(line, env=node.env, capture_output=True, check=True).stdout)


def post(node, key, path, body):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{node.api}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


class Participant:
    """A participant that publishes a camera, and counts the frames of the others."""

    def __init__(self):
        self.room, self.frames, self.has_left, self.tasks = rtc.Room(), 0, False, []
        self.room.on("track_subscribed", lambda track, *_: self.tasks.append(asyncio.ensure_future(self.count(track))))
        self.room.on("disconnected", lambda *_: setattr(self, "has_left", True))

    async def count(self, track):
        async for _ in rtc.VideoStream(track):
            self.frames += 1

    async def film(self, source):
        frame = rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGBA, bytes([40, 160, 40, 255]) * (WIDTH * HEIGHT))
        while True:
            source.capture_frame(frame)
            await asyncio.sleep(1 / 15)

    async def join(self, token):
        await self.room.connect(token["url"], token["token"])
        source = rtc.VideoSource(WIDTH, HEIGHT)
        await self.room.local_participant.publish_track(rtc.LocalVideoTrack.create_video_track("camera", source))
        self.tasks.append(asyncio.ensure_future(self.film(source)))
        return self

    async def leave(self):
        for task in self.tasks:
            task.cancel()
        await self.room.disconnect()


async def until_all_see(participants, limit):
    """Waits until each participant has received another second of video. Returns how long that took."""
    began, before = time.monotonic(), [participant.frames for participant in participants]
    while any(participant.frames < count + 10 for participant, count in zip(participants, before)):
        if any(participant.has_left for participant in participants):
            fail("a client has given up")
        if time.monotonic() - began > limit:
            fail(f"no video {limit} s after the kill")
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def check_call(nodes, tokens):
    participants = [await Participant().join(token) for token in tokens]
    await until_all_see(participants, page.WAIT_LIMIT)
    active = next(node for node in nodes if node.role() == "active")
    await asyncio.to_thread(active.stop, signal.SIGKILL)
    took = await until_all_see(participants, LIMIT)
    print(f"video {took:.1f} s after the kill", flush=True)
    for participant in participants:
        await participant.leave()


def check_in(folder, binary):
    postgres, nodes = page.Postgres(folder), []
    try:
        database, config = folder / "database.url", page.settings_of_page(folder)
        postgres.call("psql", "-h", str(postgres.folder), "-p", str(postgres.port), "-U", "postgres", "-c",
                      f"ALTER USER postgres PASSWORD '{page.PASSWORD}'", "-c", "CREATE DATABASE conclave")
        quoted = page.PASSWORD.replace(" ", "%20")
        database.write_text(f"postgres://postgres:{quoted}@127.0.0.1:{postgres.port}/conclave\n")
        database.chmod(0o600)
        # Clients call the second server, which stays.
        called = page.free_port()
        apis = (None, called, None)
        nodes = [CallNode(binary, folder / name, database, api, called) for name, api in zip(page.NODES, apis)]
        page.start_nodes(nodes, config)
        project = command(nodes[0], config, "project", "create", "--name", "calls")["project_id"]
        key = command(nodes[0], config, "key", "create", project)["key"]
        roles = {"host": {}}
        template = post(nodes[1], key, "/v1/templates", {"name": "calls", "roles": roles})
        post(nodes[1], key, "/v1/rooms", {"name": "call", "template_id": template["id"]})
        token = lambda identity: post(nodes[1], key, "/v1/tokens", {"room": "call", "identity": identity, "role": "host"})
        asyncio.run(check_call(nodes, [token("alice"), token("bob")]))
    finally:
        for node in nodes:
            if node.process and node.process.poll() is None:
                node.stop(signal.SIGTERM)
        postgres.stop()


def check(binary):
    with tempfile.TemporaryDirectory(prefix="conclave-calls-") as folder:
        Path(folder).chmod(0o755)
        check_in(Path(folder), binary)
