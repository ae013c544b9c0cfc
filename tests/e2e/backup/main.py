"""Restores backups: a server's copies of its database, and Litestream's stream of it after kill -9.

    scripts/check backup

A server runs under load: rooms are created and ended, participants join. Everything acknowledged before a copy, or more than two
seconds before the kill, must exist after the restore, and the start must bring sessions and deadlines in order. Litestream is
built by Go from its module, once, in target/check-backup, and runs with deploy/litestream.yml. The check also prints the latency of writes
during copies. Needs Go. Exits 0 only if everything held, and 77 if Litestream cannot be built.
"""

import json
import os
import re
import sqlite3
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from ..support import preparation
from ..support.server import NOWHERE, UNLIMITED, Server
from ..support.settings import environment
from ..support.telling import Telling, wait_for

MODULE = "github.com/benbjohnson/litestream"
SETTINGS = preparation.ROOT / "deploy" / "litestream.yml"
# The version for which deploy/litestream.yml was written.
VERSION = re.search(r"Litestream (\d+\.\d+\.\d+)", SETTINGS.read_text()).group(1)
# Changes of the last seconds, which Litestream may not have copied yet.
LOST = 2
LOAD_SECONDS, WRITERS = 12, 3
# More rooms and sessions than any scenario has.
ALL = 1_000_000
# Megabytes added to the database: enough that a copy takes a while, and that the log is checkpointed many times.
TO_COPY, TO_STREAM = 200, 40


def litestream(directory):
    """Returns the path of Litestream, built if it is missing; None if it cannot be built."""
    program = directory / VERSION / "litestream"
    if not program.exists():
        places = os.environ | {"GOBIN": str(program.parent), "CGO_ENABLED": "0"}
        subprocess.run(["go", "install", f"{MODULE}/cmd/litestream@v{VERSION}"], env=places, cwd=directory)
    return program if program.exists() else None


# The log reports completed copies.
SETTINGS_OF_SERVERS = UNLIMITED | {"RUST_LOG": "warn,conclave::backups=info"}


@contextmanager
def place():
    """Yields a function that starts servers in a scenario's folder, and the folder. All started servers are stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="conclave-backup-") as folder, ExitStack() as ends:

        def start(program, name, settings=None):
            server = Server(program, folder, SETTINGS_OF_SERVERS | (settings or {}), name=name)
            ends.callback(server.stop)
            return server.start()

        yield start, Path(folder)


class Load:
    """Threads that create rooms, and end every other one, until the server is gone. They record each acknowledgement and its time."""

    def __init__(self, server, name):
        self.server, self.name, self.stopped = server, name, False
        self.open, self.ended, self.took = {}, {}, []
        self.threads = [threading.Thread(target=self.write, args=(writer,)) for writer in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def write(self, writer):
        number = 0
        while not self.stopped:
            room, number = f"{self.name}-{writer}-{number}", number + 1
            try:
                self.call(self.open, room, "POST", "/v1/rooms", {"name": room})
                if number % 2:
                    self.call(self.ended, room, "DELETE", f"/v1/rooms/{room}")
            except OSError:
                return

    def call(self, acknowledged, room, *request):
        begun = time.monotonic()
        self.server.request(*request)
        self.took.append(time.monotonic() - begun)
        acknowledged[room] = time.time()

    def stop(self):
        self.stopped = True
        for thread in self.threads:
            thread.join()

    def expected(self, until):
        """Returns the rooms acknowledged before a time: open ones and ended ones."""
        before = lambda acknowledged: {room for room, at in acknowledged.items() if at <= until}
        return before(self.open), before(self.ended)


def quantiles(took):
    took = sorted(took)
    return " and ".join(f"{1000 * took[int(share * (len(took) - 1))]:.0f}" for share in (0.5, 0.99))


def verify(server, load, until):
    """Returns the number of rooms, of which all acknowledged before a time must exist."""
    rooms = {room["name"]: room["status"] for room in server.listed("/v1/rooms", "rooms", ALL)}
    created, ended = load.expected(until)
    missing = sorted(created - rooms.keys())
    assert not missing, f"{len(missing)} of {len(created)} rooms are missing, such as {missing[0]}"
    still_open = sorted(room for room in ended if rooms[room] != "ended")
    assert not still_open, f"{len(still_open)} rooms are open again, such as {still_open[0]}"
    return len(created)


class Check:
    def __init__(self, program, stream):
        self.program, self.stream = program, stream

    def restore(self, file, data, keys):
        """Restores a file into a new data directory with these keys, and returns the command's output."""
        data.mkdir(mode=0o700)
        for key in ("encryption.key", "media.key"):
            (data / key).write_bytes((keys / key).read_bytes())
            (data / key).chmod(0o600)
        command = [self.program, "--data", data, "restore", file, "--json"]
        restored = subprocess.run(command, env=environment({}), capture_output=True, text=True)
        assert restored.returncode == 0, restored.stderr
        found = json.loads(restored.stdout)
        assert found["unopenable_secrets"] == 0 < found["secrets"], found
        return found

    def copies(self):
        """The server copies its database repeatedly under load, and a copy is restored."""
        with place() as (start, folder):
            return self.copies_in(start, folder)

    def copies_in(self, start, folder):
        data, directory = folder / "data", folder / "copies"
        server = start(self.program, "data")
        server.request("POST", "/v1/webhook-endpoints", {"url": NOWHERE})
        pad(data / "conclave.db", TO_COPY)
        without = Load(server, "without")
        time.sleep(LOAD_SECONDS)
        without.stop()
        server.stop()
        settings = {"CONCLAVE_BACKUP__DIRECTORY": str(directory), "CONCLAVE_BACKUP__EVERY": "1s", "CONCLAVE_BACKUP__KEEP": "2"}
        server = start(self.program, "data", settings)
        beside = Load(server, "beside")
        wait_for("two copies", lambda: server.log.read_text().count("has been copied") >= 2, 300)
        time.sleep(LOAD_SECONDS)
        beside.stop()
        server.stop()
        copies = sorted(directory.glob("conclave-*.db"))
        assert len(copies) == 2, copies
        at = datetime.fromisoformat(re.sub(r"T(\d\d)-(\d\d)-", r"T\1:\2:", copies[-1].name[len("conclave-"):-len(".db")]).replace("Z", "+00:00"))
        found = self.restore(copies[-1], folder / "restored", data)
        restored = start(self.program, "restored")
        count = verify(restored, beside, at.timestamp())
        restored.stop()
        made = server.log.read_text().count("has been copied")
        return (
            f"{made} copies of {found['bytes'] >> 20} MiB, {count} rooms in the last one; writes took {quantiles(without.took)} ms "
            f"without copies and {quantiles(beside.took)} ms beside them (median and 99th percentile)"
        )

    def streamed(self):
        """The machine is lost under load, and Litestream's copy is restored."""
        with place() as (start, folder):
            return self.streamed_in(start, folder)

    def streamed_in(self, start, folder):
        data, replica = folder / "data", folder / "replica"
        server = start(self.program, "data")
        server.request("POST", "/v1/webhook-endpoints", {"url": NOWHERE})
        places = os.environ | {"CONCLAVE_DATA": str(data), "CONCLAVE_REPLICA": f"file://{replica}"}
        with (folder / "litestream.log").open("w") as log:
            command = [self.stream, "replicate", "-config", SETTINGS]
            stream = subprocess.Popen(command, env=places, stdout=log, stderr=log)
        try:
            load = Load(server, "streamed")
            pad(data / "conclave.db", TO_STREAM)
            # One room has participants at the kill; one has a deadline that passes while nothing runs.
            server.request("POST", "/v1/rooms", {"name": "live"})
            token = server.request("POST", "/v1/tokens", {"room": "live", "identity": "alice", "name": "Alice", "role": "host"})["token"]
            server.request("POST", "/sandbox/join", {"token": token})
            server.request("POST", "/v1/rooms", {"name": "short", "empty_timeout_seconds": LOAD_SECONDS + 1})
            time.sleep(LOAD_SECONDS)
            killed = time.time()
            server.kill()
            stream.kill()
            load.stop()
        finally:
            stream.kill()
            stream.wait()
        restored = folder / "restored.db"
        command = [self.stream, "restore", "-config", SETTINGS, "-o", restored, data / "conclave.db"]
        ended = subprocess.run(command, env=places, capture_output=True, text=True)
        assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}{(folder / 'litestream.log').read_text()}"
        found = self.restore(restored, folder / "again", data)
        server = start(self.program, "again")
        count = verify(server, load, killed - LOST)
        sessions = server.listed("/v1/sessions", "sessions", ALL)
        assert sessions and all(session.get("left_at") for session in sessions), sessions
        wait_for("the deadline that has passed ends its room", lambda: server.request("GET", "/v1/rooms/short")["status"] == "ended")
        assert server.request("GET", "/v1/rooms/live")["status"] == "open"
        server.stop()
        late = sum(at > killed - LOST for at in load.open.values())
        kept = {room for room, at in load.open.items() if at > killed - LOST} & names(folder / "again" / "conclave.db")
        return (
            f"{count} rooms, {len(kept)} of the {late} of the last {LOST} s too; last change {found['last_change']}; writes took "
            f"{quantiles(load.took)} ms beside it, {1000 * max(load.took):.0f} at most"
        )


def names(database):
    connection = sqlite3.connect(database)
    try:
        return {name for (name,) in connection.execute("SELECT name FROM rooms")}
    finally:
        connection.close()


def pad(database, megabytes):
    """Enlarges the database with past events that no receiver waits for."""
    connection = sqlite3.connect(database, timeout=30)
    project = connection.execute("SELECT id FROM projects").fetchone()[0]
    event = "INSERT INTO events (project_id, room, type, payload, created_at) VALUES (?, 'r', 't', ?, ?)"
    for _ in range(megabytes):
        with connection:
            connection.executemany(event, [(project, "x" * 1024, int(time.time() * 1000))] * 1024)
    connection.close()


def main():
    directory = preparation.target_directory() / "check-backup"
    directory.mkdir(parents=True, exist_ok=True)
    stream = litestream(directory)
    if not stream:
        preparation.skip("Litestream cannot be built")
    check, telling = Check(preparation.program(), stream), Telling()
    for title, story in (
        ("copies are made under load and restore", check.copies),
        (f"Litestream {VERSION} loses at most {LOST} s of a killed server", check.streamed),
    ):
        telling.tell(title, story)
    return telling.end()

