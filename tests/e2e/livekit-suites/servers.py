"""Servers under test: Conclave with its embedded media plane, and livekit-server as the control."""

import json
import os
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from ..support import livekit_server
from ..support.server import UNLIMITED, Server, free_port
from .tokens import KEY, SECRET

START = 60


class Target:
    """A server in its own folder, which is restarted for each test that requires it."""

    def __init__(self, program, logs):
        self.program, self.log = program, logs / f"{self.kind}.log"
        self.server = self.directory = self.port = None

    def start(self, settings=None):
        self.stop()
        self.directory = tempfile.TemporaryDirectory(prefix="conclave-suites-")
        self.launch(Path(self.directory.name), settings or {})
        deadline = time.monotonic() + START
        while not self.is_ready():
            if self.server.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.kind} did not start, see {self.log}")
            time.sleep(0.02)

    def stop(self):
        if self.server:
            # Killed, since its data is not needed, and a livekit-server would wait for its participants.
            self.server.process.kill()
            self.server.process.wait()
            self.server = None
            self.directory.cleanup()

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


class Conclave(Target):
    kind = "conclave"

    def launch(self, directory, settings):
        workers = max(1, os.cpu_count() or 1)
        first = free_port(workers)
        variables = UNLIMITED | {
            "RUST_LOG": os.environ.get("RUST_LOG", "warn"),
            # The suites sign their tokens.
            "CONCLAVE_MEDIA__API_KEY": KEY,
            "CONCLAVE_MEDIA__API_SECRET": SECRET,
            "CONCLAVE_MEDIA__RTMP_LISTEN": "127.0.0.1:0",
            "CONCLAVE_MEDIA__RTC__UDP_PORTS": f"{first}-{first + workers - 1}",
        }
        if settings.get("turn"):
            variables |= {"CONCLAVE_MEDIA__RTC__TURN__SERVER": "on", "CONCLAVE_MEDIA__RTC__TURN__UDP_PORT": "0"}
        self.server = Server(self.program, directory, variables)
        # All servers share one log.
        self.server.log = self.log
        self.server.start()
        self.port = int(self.server.ready["api"].rpartition(":")[2])

    def is_ready(self):
        return self.server.is_ready()

    def call(self, method, path, body=None):
        """Calls the API; returns the response's status and body."""
        try:
            return 200, self.server.request(method, path, body)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


class LiveKit(Target):
    kind = "livekit-server"

    def launch(self, directory, settings):
        config = {
            "room": {"auto_create": settings.get("auto_create", True)},
            "enable_data_tracks": True,
            "enable_participant_data_blob": settings.get("data_blobs", False),
            "limit": {"max_data_blobs_size": settings.get("max_data_blob_size", 64_000)},
        }
        rtc = {}
        if threshold := settings.get("datachannel_slow_threshold"):
            rtc["datachannel_slow_threshold"] = threshold
        if settings.get("turn"):
            config["turn"] = {
                "enabled": True,
                "udp_port": free_port(),
                "allow_restricted_peer_cidrs": settings.get("allow_restricted_peer_cidrs") or [],
                "deny_peer_cidrs": settings.get("deny_peer_cidrs") or [],
            }
        with self.log.open("ab") as log:
            self.server = livekit_server.LiveKit(self.program, directory, log, rtc=rtc, key=KEY, secret=SECRET, **config)
        self.port = self.server.port

    def is_ready(self):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5).close()
            return True
        except urllib.error.URLError:
            return False
