"""Servers for checks: `conclave dev`, each in its own folder and process."""

import contextlib
import json
import random
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from .settings import environment

# Limits that no check reaches by accident.
UNLIMITED = {"CONCLAVE_LIMITS__REQUESTS_PER_SECOND": "100000", "CONCLAVE_LIMITS__BURST": "100000"}
# URL of a webhook endpoint without a server.
NOWHERE = "http://127.0.0.1:9/"


def free_port(count=1):
    """Returns a port that is free for TCP and UDP, or the first of `count` such ports. It is below the ephemeral ports, which an outgoing
    connection could occupy before the port is used."""
    while True:
        first = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as probes:
            for port in range(first, first + count):
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    probes.enter_context(socket.socket(type=kind)).bind(("0.0.0.0", port))
            return first


def call(method, url, key=None, body=None, *, headers=None, timeout=40, context=None):
    """Sends a request, and returns the JSON of its response. Raises HTTPError for an error status."""
    request = urllib.request.Request(url, method=method, headers=headers or {})
    if key is not None:
        request.add_header("authorization", f"Bearer {key}")
    if body is not None:
        request.add_header("content-type", "application/json")
        request.data = json.dumps(body).encode()
    with urllib.request.urlopen(request, timeout=timeout, context=context) as response:
        text = response.read()
    return json.loads(text) if text else None


class Server:
    """`conclave dev` in a folder, by default a temporary one. `name` is the name of its data directory and its log there."""

    def __init__(self, program, folder=None, settings=None, *, name="data", ports=(0, 0), certificate=None):
        self.program, self.ports, self.process = program, ports, None
        self.temporary = None if folder else tempfile.TemporaryDirectory(prefix="conclave-check-")
        self.folder = Path(folder or self.temporary.name)
        self.data, self.log = self.folder / name, self.folder / f"{name}.log"
        self.own_settings = settings or {}
        # The server's certificate for `localhost`.
        self.certificate = certificate

    def settings(self):
        """Returns the server's settings as variables."""
        return self.own_settings

    def environment(self):
        return environment({"RUST_LOG": "warn"} | self.settings())

    def command(self):
        api, admin = (f"127.0.0.1:{port}" for port in self.ports)
        return [self.program, "--data", self.data, "dev", "--listen", api, "--admin", admin]

    def launch(self, stdout):
        """Starts the process."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, env=self.environment(), stdout=stdout or log, stderr=log, text=True
            )

    def start(self):
        """Starts the server, or restarts it on the same data. Returns it."""
        self.launch(subprocess.PIPE)
        ready = self.process.stdout.readline()
        if not ready:
            raise RuntimeError(f"the server did not start: {self.log.read_text()}")
        self.ready = json.loads(ready)
        return self

    def is_ready(self):
        """Returns whether the server and its media plane are ready."""
        try:
            urllib.request.urlopen(f"{self.ready['admin']}/readyz", timeout=5).close()
            return True
        except OSError:
            return False

    def wait_until_ready(self, seconds=20):
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server is not ready after {seconds} s: {self.log.read_text()}")
            time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self):
        """Stops the server before a restart. It must end without an error."""
        self.process.terminate()
        assert self.process.wait(60) == 0, "the server ended otherwise"

    def stop(self):
        """Stops the server for good, if it runs."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.temporary:
            self.temporary.cleanup()

    def request(self, method, path, body=None):
        """Calls the API, or the admin listener for its paths, and returns the response's body."""
        is_api = path.startswith(("/v1/", "/ext/", "/openapi.json"))
        base, context = self.ready["api" if is_api else "admin"], None
        if is_api and self.certificate:
            base, context = f"https://localhost:{base.rpartition(':')[2]}", ssl.create_default_context(cafile=self.certificate)
        key = self.ready["api_key"] if is_api else self.settings().get("CONCLAVE_ADMIN__TOKEN", self.ready["api_key"])
        return call(method, base + path, key, body, context=context)

    def listed(self, path, key, most):
        """Returns an API list's items, newest first, but at most this number."""
        found, has_more = [], True
        while has_more and len(found) < most:
            page = self.request("GET", f"{path}?limit=100&offset={len(found)}")
            found += page[key]
            has_more = page["has_more"]
        return found

    def file_of(self, recording):
        return self.data / "recordings" / recording["project_id"] / recording["filepath"]


class Rtmp:
    """A port for RTMP encoders, which survives the server's restarts."""

    def __init__(self):
        self.address = f"127.0.0.1:{free_port()}"

    def settings(self):
        return {"CONCLAVE_MEDIA__RTMP_LISTEN": self.address}


class CallServer(Server):
    """A server for calls, with a webhook endpoint. It keeps its ports across restarts. `livekit` is its media plane, or None for the
    embedded one; `network` lies between it and its clients. Both provide settings for it."""

    def __init__(self, program, webhooks=NOWHERE, livekit=None, network=None, ports=None):
        super().__init__(program, name="data", ports=ports or (free_port(), free_port()))
        self.livekit, self.network = livekit, network
        self.start()
        self.request("POST", "/v1/webhook-endpoints", {"url": webhooks})

    def settings(self):
        settings = UNLIMITED
        for part in filter(None, (self.livekit, self.network)):
            settings = settings | part.settings()
        return settings

    def start(self):
        super().start()
        self.wait_until_ready()
        return self

    def excesses(self):
        """Returns the number of clients disconnected since the start for sending too much."""
        with urllib.request.urlopen(f"{self.ready['admin']}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        names = ("conclave_rtc_excesses_total{", "conclave_rtc_clients_refused_total{")
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(names))

    def sessions(self, room, most=100):
        """Returns a room's sessions, newest first."""
        return self.listed(f"/v1/rooms/{room}/sessions", "sessions", most)

    def events(self, room, most=100):
        """Returns a room's events, newest first, from the server's latest events, at most this number."""
        deliveries = self.listed("/v1/webhook-deliveries", "webhook_deliveries", most)
        return [delivery["payload"] for delivery in deliveries if delivery["payload"]["room"] == room]

    def token(self, room, identity, role="host"):
        """Returns a token for a room, which is created if it does not exist."""
        try:
            self.request("POST", "/v1/rooms", {"name": room})
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
        return self.request("POST", "/v1/tokens", {"room": room, "identity": identity, "role": role})
