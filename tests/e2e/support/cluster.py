"""A cluster: a throw-away PostgreSQL, and Conclave nodes on it."""

import json
import os
import shutil
import subprocess
import urllib.error

from .preparation import postgres_programs
from .server import Server, call, free_port
from .telling import wait_for

NODES = ("node-1", "node-2", "node-3")
PASSWORD = "a password of this check"
TOKEN = "a-token-of-this-check"
# Time limit in seconds that detects hangs, not a promise.
WAIT_LIMIT = 120


def fail(message):
    raise AssertionError(message)


def run(*command, **options):
    """Runs a command that must succeed, and returns its output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def wait(what, is_true):
    return wait_for(what, is_true, WAIT_LIMIT)


class Postgres:
    """A throw-away PostgreSQL. It refuses root, so root runs it as another user, who must reach the folder."""

    def __init__(self, folder):
        self.programs = postgres_programs()
        self.folder, self.port = folder / "postgres", free_port()
        self.folder.mkdir()
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        self.call("initdb", "--encoding=UTF8", "--username=postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync")
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self.call("pg_ctl", "--wait", "--log", str(self.folder / "log"), "-o", options, "start")

    def call(self, program, *arguments):
        options = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        env = {**os.environ, "PGDATA": str(self.folder), "LC_ALL": "C"}
        run(f"{self.programs}/{program}", *arguments, cwd=self.folder, env=env, **options)

    def create_database(self, path):
        """Creates a database for servers, and writes its URL to a file."""
        self.call("psql", "-h", self.folder, "-p", str(self.port), "-U", "postgres", "-c",
                  f"ALTER USER postgres PASSWORD '{PASSWORD}'", "-c", "CREATE DATABASE conclave")
        self.write_url(path, "postgres")

    def write_url(self, path, user):
        quoted = PASSWORD.replace(" ", "%20")
        path.write_text(f"postgres://{user}:{quoted}@127.0.0.1:{self.port}/conclave\n")
        path.chmod(0o600)

    def stop(self):
        self.call("pg_ctl", "--wait", "--mode=immediate", "stop")


class Node(Server):
    """A server of a cluster, on local addresses. Its name is the data directory's."""

    def __init__(self, program, folder, name, database, api=None):
        super().__init__(program, folder, name=name)
        self.api, self.admin, self.config = api or free_port(), free_port(), None
        self.own_settings = {
            "CONCLAVE_HTTP__LISTEN": f"127.0.0.1:{self.api}",
            "CONCLAVE_HTTP__TRUSTED_PROXIES": "127.0.0.1",
            "CONCLAVE_CLUSTER__URL": f"http://127.0.0.1:{self.api}",
            "CONCLAVE_ADMIN__LISTEN": f"127.0.0.1:{self.admin}",
            "CONCLAVE_ADMIN__TOKEN": TOKEN,
            "CONCLAVE_DATABASE__URL_FILE": str(database),
        }

    def command(self):
        return [self.program, "--config", self.config, "--data", self.data, "serve"]

    def start(self, config):
        """Starts the server. It is not ready before it has a role."""
        self.config = config
        self.launch(None)

    def run(self, config, *arguments):
        """Runs a command of the program with this server's settings, and returns the JSON output."""
        command = [self.program, "--config", config, "--data", self.data, *arguments, "--json"]
        return json.loads(run(*command, env=self.environment()))

    def call(self, method, path, key, body=None, headers=None):
        """Calls the API."""
        return call(method, f"http://127.0.0.1:{self.api}{path}", key, body, headers=headers)

    def role(self):
        if self.process.poll() is not None:
            fail(f"a server has ended: {self.log.read_text()}")
        try:
            return call("GET", f"http://127.0.0.1:{self.admin}/readyz", TOKEN, timeout=30).get("role")
        except urllib.error.HTTPError as error:
            return (json.loads(error.read() or b"null") or {}).get("role")
        except OSError:
            return None


def create_room(port, key, name):
    """Creates a room, and returns the status; None without a response."""
    try:
        call("POST", f"http://127.0.0.1:{port}/v1/rooms", key, {"name": name}, headers={"Idempotency-Key": name}, timeout=60)
        return 201
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def start_nodes(nodes, config):
    """Starts the servers as in docs/cluster.md: the first one creates the keys, which the others receive."""
    first, others = nodes[0], nodes[1:]
    first.start(config)
    wait("the first server is active", lambda: first.role() == "active")
    for node in others:
        node.data.mkdir(mode=0o700)
        for key in ("encryption.key", "media.key"):
            shutil.copy2(first.data / key, node.data / key)
        node.start(config)
    wait("the others are standbys", lambda: all(node.role() == "standby" for node in others))
