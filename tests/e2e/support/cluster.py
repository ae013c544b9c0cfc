"""The servers of a cluster: a throw-away PostgreSQL, and nodes of Conclave on it."""

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from deployment import free_port
from settings import environment

NODES = ("node-1", "node-2", "node-3")
PASSWORD = "a password of this check"
TOKEN = "a-token-of-this-check"
# Finds what hangs; it is no promise.
WAIT_LIMIT = 120


def fail(message):
    raise AssertionError(message)


def run(*command, **options):
    """Runs a command that must succeed, and returns what it prints."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def wait(what, is_true):
    end = time.monotonic() + WAIT_LIMIT
    while not (result := is_true()):
        if time.monotonic() > end:
            fail(f"waited in vain for: {what}")
        time.sleep(0.05)
    return result


def get(url):
    """Returns the status and the JSON of a response; None without one."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")
    except OSError:
        return None


def postgres_programs():
    """The folder of the programs of PostgreSQL; None where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    in_path = shutil.which("initdb")
    return found[-1] if found else in_path and Path(in_path).parent


class Postgres:
    """A throw-away PostgreSQL. It refuses root, so another user runs it then, who has to reach the folder."""

    def __init__(self, folder):
        self.programs = postgres_programs()
        self.folder, self.port = folder / "postgres", free_port()
        self.folder.mkdir()
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        self.call("initdb", "--username=postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync")
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self.call("pg_ctl", "--wait", "--log", str(self.folder / "log"), "-o", options, "start")

    def call(self, program, *arguments):
        options = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        env = {**os.environ, "PGDATA": str(self.folder), "LC_ALL": "C"}
        run(f"{self.programs}/{program}", *arguments, cwd=self.folder, env=env, **options)

    def create_database(self, path):
        """Creates a database for servers, and writes its url to a file."""
        self.call("psql", "-h", self.folder, "-p", str(self.port), "-U", "postgres", "-c",
                  f"ALTER USER postgres PASSWORD '{PASSWORD}'", "-c", "CREATE DATABASE conclave")
        self.write_url(path, "postgres")

    def write_url(self, path, user):
        quoted = PASSWORD.replace(" ", "%20")
        path.write_text(f"postgres://{user}:{quoted}@127.0.0.1:{self.port}/conclave\n")
        path.chmod(0o600)

    def stop(self):
        self.call("pg_ctl", "--wait", "--mode=immediate", "stop")


class Node:
    """A server on addresses of this machine."""

    def __init__(self, binary, folder, database, api=None):
        self.binary, self.data, self.process = binary, folder, None
        self.api, self.admin = api or free_port(), free_port()
        self.env = environment({
            "CONCLAVE_HTTP__LISTEN": f"127.0.0.1:{self.api}",
            "CONCLAVE_HTTP__TRUSTED_PROXIES": "127.0.0.1",
            "CONCLAVE_CLUSTER__URL": f"http://127.0.0.1:{self.api}",
            "CONCLAVE_ADMIN__LISTEN": f"127.0.0.1:{self.admin}",
            "CONCLAVE_ADMIN__TOKEN": TOKEN,
            "CONCLAVE_DATABASE__URL_FILE": str(database),
        })

    def start(self, config):
        arguments = [self.binary, "--config", config, "--data", self.data, "serve"]
        log = open(f"{self.data}.log", "ab")
        self.process = subprocess.Popen(arguments, env=self.env, stdout=log, stderr=log)

    def command(self, config, *arguments):
        """Runs a command of the program with the settings of this server, and returns the JSON that it prints."""
        return json.loads(run(self.binary, "--config", config, "--data", self.data, *arguments, "--json", env=self.env))

    def role(self):
        if self.process.poll() is not None:
            fail(f"a server has ended: {Path(f'{self.data}.log').read_text()}")
        answer = get(f"http://127.0.0.1:{self.admin}/readyz")
        return answer[1].get("role") if answer else None

    def stop(self, with_signal):
        self.process.send_signal(with_signal)
        self.process.wait(WAIT_LIMIT)

    def end(self):
        """Stops the server if it runs."""
        if self.process and self.process.poll() is None:
            self.stop(signal.SIGTERM)


def create_room(port, key, name):
    """Creates a room, and returns the status; None without an answer."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Idempotency-Key": name}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/rooms", json.dumps({"name": name}).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def start_nodes(nodes, config):
    """Starts the servers as docs/cluster.md says: the first one makes the keys, which the others get."""
    first, others = nodes[0], nodes[1:]
    first.start(config)
    wait("the first server is active", lambda: first.role() == "active")
    for node in others:
        node.data.mkdir(mode=0o700)
        for key in ("encryption.key", "media.key"):
            shutil.copy2(first.data / key, node.data / key)
        node.start(config)
    wait("the others are standbys", lambda: all(node.role() == "standby" for node in others))
