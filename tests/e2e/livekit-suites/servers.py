"""The servers that the suites run against: Conclave with its embedded media plane, and livekit-server as the control."""

import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from deployment import free_port
from settings import environment
from tokens import KEY, SECRET

START = 60


class Server:
    """A program in a folder of its own, which is started anew for each test that asks for that."""

    def __init__(self, program, logs):
        self.program, self.log = program, logs / f"{self.kind}.log"
        self.process = self.directory = self.port = None

    def start(self, settings=None):
        self.stop()
        self.directory = tempfile.TemporaryDirectory(prefix="conclave-suites-")
        with self.log.open("ab") as log:
            self.process = self.launch(Path(self.directory.name), settings or {}, log)
        deadline = time.monotonic() + START
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.kind} did not start, see {self.log}")
            time.sleep(0.02)

    def stop(self):
        if self.process:
            # Nothing of it is needed any more, and a livekit-server waits for its participants.
            self.process.kill()
            self.process.wait()
            self.process = None
            self.directory.cleanup()

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


class Conclave(Server):
    kind = "conclave"

    def launch(self, directory, settings, log):
        workers = max(1, os.cpu_count() or 1)
        first = free_port(workers)
        variables = {
            "RUST_LOG": os.environ.get("RUST_LOG", "warn"),
            "CONCLAVE_LIMITS__REQUESTS_PER_SECOND": "100000",
            "CONCLAVE_LIMITS__BURST": "100000",
            # The suites sign their tokens.
            "CONCLAVE_MEDIA__API_KEY": KEY,
            "CONCLAVE_MEDIA__API_SECRET": SECRET,
            "CONCLAVE_MEDIA__RTMP_LISTEN": "127.0.0.1:0",
            "CONCLAVE_MEDIA__RTC__UDP_PORTS": f"{first}-{first + workers - 1}",
        }
        if settings.get("turn"):
            variables |= {"CONCLAVE_MEDIA__RTC__TURN__SERVER": "on", "CONCLAVE_MEDIA__RTC__TURN__UDP_PORT": "0"}
        command = [self.program, "--data", directory / "data", "dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        process = subprocess.Popen(command, env=environment(variables), stdout=subprocess.PIPE, stderr=log, text=True)
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"conclave did not start, see {self.log}")
        self.ready = json.loads(line)
        self.port = int(self.ready["api"].rpartition(":")[2])
        return process

    def is_ready(self):
        try:
            urllib.request.urlopen(f"{self.ready['admin']}/readyz", timeout=5).close()
            return True
        except urllib.error.URLError:
            return False

    def call(self, method, path, body=None):
        """Calls the API; returns the status and the body of the response."""
        request = urllib.request.Request(self.ready["api"] + path, method=method)
        request.add_header("authorization", f"Bearer {self.ready['api_key']}")
        if body is not None:
            request.add_header("content-type", "application/json")
            request.data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, timeout=40) as response:
                text = response.read()
                return response.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


class LiveKit(Server):
    kind = "livekit-server"

    def launch(self, directory, settings, log):
        self.port = free_port()
        config = {
            "port": self.port,
            "bind_addresses": ["127.0.0.1"],
            "rtc": {"udp_port": free_port(), "tcp_port": free_port()},
            "room": {"auto_create": settings.get("auto_create", True)},
            "keys": {KEY: SECRET},
            "enable_data_tracks": True,
            "enable_participant_data_blob": settings.get("data_blobs", False),
            "limit": {"max_data_blobs_size": settings.get("max_data_blob_size", 64_000)},
        }
        if threshold := settings.get("datachannel_slow_threshold"):
            config["rtc"]["datachannel_slow_threshold"] = threshold
        if settings.get("turn"):
            config["turn"] = {
                "enabled": True,
                "udp_port": free_port(),
                "allow_restricted_peer_cidrs": settings.get("allow_restricted_peer_cidrs") or [],
                "deny_peer_cidrs": settings.get("deny_peer_cidrs") or [],
            }
        file = directory / "livekit.yaml"
        # JSON is YAML.
        file.write_text(json.dumps(config))
        return subprocess.Popen([self.program, "--config", file], stdout=log, stderr=log)

    def is_ready(self):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5).close()
            return True
        except urllib.error.URLError:
            return False
