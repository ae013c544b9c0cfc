"""The servers of a check: Conclave, and LiveKit where it is the media plane."""

import contextlib
import json
import random
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from settings import environment

KEY, SECRET = "check-clients", "a-secret-of-the-check-that-is-long-enough"


def free_port(count=1):
    """Returns a port that is free for TCP and UDP, or the first of so many: below those that the system gives to connections, one of
    which could have it before it is used."""
    while True:
        first = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as probes:
            for port in range(first, first + count):
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    probes.enter_context(socket.socket(type=kind)).bind(("0.0.0.0", port))
            return first


class LiveKit:
    """A livekit-server on loopback."""

    def __init__(self, program, directory):
        self.port = free_port()
        config = {
            "port": self.port,
            "bind_addresses": ["127.0.0.1"],
            "rtc": {
                "udp_port": free_port(), "tcp_port": free_port(), "use_ice_lite": True, "node_ip": "127.0.0.1",
                "enable_loopback_candidate": True,
                # Other addresses would be advertised as the same one, and clients then reach a socket that does not expect them.
                "ips": {"includes": ["127.0.0.1/32"]},
            },
            "keys": {KEY: SECRET},
        }
        file = Path(directory) / "livekit.yaml"
        # JSON is YAML.
        file.write_text(json.dumps(config))
        log = (Path(directory) / "livekit.log").open("w")
        self.process = subprocess.Popen([program, "--config", file], stdout=log, stderr=log)

    def settings(self):
        return {
            "CONCLAVE_MEDIA__KIND": "livekit",
            "CONCLAVE_MEDIA__SANDBOX": "false",
            "CONCLAVE_MEDIA__URL": f"http://127.0.0.1:{self.port}",
            "CONCLAVE_MEDIA__PUBLIC_URL": f"ws://127.0.0.1:{self.port}",
            "CONCLAVE_MEDIA__API_KEY": KEY,
            "CONCLAVE_MEDIA__API_SECRET": SECRET,
        }

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


class Rtmp:
    """A port for RTMP encoders, which stays the same when the server starts again."""

    def __init__(self):
        self.address = f"127.0.0.1:{free_port()}"

    def settings(self):
        return {"CONCLAVE_MEDIA__RTMP_LISTEN": self.address}


class Conclave:
    """`conclave dev` in a directory of its own."""

    def __init__(self, program, webhooks, livekit_program=None, network=None, ports=None):
        self.program, self.network = program, network
        self.directory = tempfile.TemporaryDirectory(prefix="conclave-clients-")
        self.livekit = LiveKit(livekit_program, self.directory.name) if livekit_program else None
        self.ports = ports or (free_port(), free_port())
        self.start()
        self.request("POST", "/v1/webhook-endpoints", {"url": webhooks})

    def start(self):
        """Starts the server, or starts it again on the same data and the same ports."""
        api, admin = (f"127.0.0.1:{port}" for port in self.ports)
        settings = {
            "CONCLAVE_LIMITS__REQUESTS_PER_SECOND": "100000", "CONCLAVE_LIMITS__BURST": "100000", "RUST_LOG": "warn",
        }
        for part in filter(None, (self.livekit, self.network)):
            settings |= part.settings()
        log_file = Path(self.directory.name) / "conclave.log"
        log = log_file.open("a")
        command = [self.program, "--data", f"{self.directory.name}/data", "dev", "--listen", api, "--admin", admin]
        self.process = subprocess.Popen(command, env=environment(settings), stdout=subprocess.PIPE, stderr=log, text=True)
        ready = self.process.stdout.readline()
        if not ready:
            raise RuntimeError(f"the server did not start: {log_file.read_text()}")
        self.ready = json.loads(ready)
        self.wait_until_ready()

    def wait_until_ready(self):
        """Waits until the media plane answers, too."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.ready['admin']}/readyz", timeout=5).close()
                return
            except urllib.error.URLError:
                time.sleep(0.1)
        raise RuntimeError("the server is not ready after 20 s")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self):
        """Stops the server, to be started again."""
        self.process.terminate()
        assert self.process.wait(60) == 0, "the server ended otherwise"

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        if self.livekit:
            self.livekit.stop()
        self.directory.cleanup()

    def request(self, method, path, body=None):
        """Calls the API, and returns the body of the response."""
        request = urllib.request.Request(f"{self.ready['api']}{path}", method=method)
        request.add_header("authorization", f"Bearer {self.ready['api_key']}")
        if body is not None:
            request.add_header("content-type", "application/json")
            request.data = json.dumps(body).encode()
        with urllib.request.urlopen(request, timeout=40) as response:
            text = response.read()
        return json.loads(text) if text else None

    def excesses(self):
        """How many clients were disconnected since the start for what they sent."""
        with urllib.request.urlopen(f"{self.ready['admin']}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        names = ("conclave_rtc_excesses_total{", "conclave_rtc_clients_refused_total{")
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(names))

    def listed(self, path, key, most):
        """What a list of the API has, newest first; all of it, or so much."""
        found, has_more = [], True
        while has_more and len(found) < most:
            page = self.request("GET", f"{path}?limit=100&offset={len(found)}")
            found += page[key]
            has_more = page["has_more"]
        return found

    def sessions(self, room, most=100):
        """The sessions of a room, newest first."""
        return self.listed(f"/v1/rooms/{room}/sessions", "sessions", most)

    def events(self, room, most=100):
        """What happened in a room, newest first, among so many events that happened last."""
        deliveries = self.listed("/v1/webhook-deliveries", "webhook_deliveries", most)
        return [delivery["payload"] for delivery in deliveries if delivery["payload"]["room"] == room]

    def token(self, room, identity, role="host"):
        """A token for a room, which is created if it is not there."""
        try:
            self.request("POST", "/v1/rooms", {"name": room})
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
        return self.request("POST", "/v1/tokens", {"room": room, "identity": identity, "role": role})
