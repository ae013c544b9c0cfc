"""The page: its commands, run against three servers."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from files import FOLDER, fail, run

NODES = ("node-1", "node-2", "node-3")
PASSWORD = "a password of this check"
TOKEN = "a-token-of-this-check"
# Finds what hangs; it is no promise.
WAIT_LIMIT = 120


def free_port():
    """Returns a port below those that the system gives to connections, one of which could have it before it is used."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


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


class Postgres:
    """A throw-away PostgreSQL. It refuses root, so another user runs it then."""

    def __init__(self, folder):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not found and shutil.which("initdb") is None:
            print("check-cluster: PostgreSQL is not installed")
            sys.exit(77)
        self.programs = str(found[-1]) if found else str(Path(shutil.which("initdb")).parent)
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

    def stop(self):
        self.call("pg_ctl", "--wait", "--mode=immediate", "stop")


class Node:
    """A server, with the settings of the page and addresses of this machine."""

    def __init__(self, binary, folder, database, api=None):
        self.binary, self.data, self.process = binary, folder, None
        self.api, self.admin = api or free_port(), free_port()
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CONCLAVE_")},
            "CONCLAVE_HTTP__LISTEN": f"127.0.0.1:{self.api}",
            "CONCLAVE_HTTP__TRUSTED_PROXIES": "127.0.0.1",
            "CONCLAVE_CLUSTER__URL": f"http://127.0.0.1:{self.api}",
            "CONCLAVE_ADMIN__LISTEN": f"127.0.0.1:{self.admin}",
            "CONCLAVE_ADMIN__TOKEN": TOKEN,
            "CONCLAVE_DATABASE__URL_FILE": str(database),
        }

    def start(self, config):
        arguments = [self.binary, "--config", config, "--data", self.data, "serve"]
        log = open(f"{self.data}.log", "ab")
        self.process = subprocess.Popen(arguments, env=self.env, stdout=log, stderr=log)

    def role(self):
        if self.process.poll() is not None:
            fail(f"a server has ended: {Path(f'{self.data}.log').read_text()}")
        answer = get(f"http://127.0.0.1:{self.admin}/readyz")
        return answer[1].get("role") if answer else None

    def stop(self, with_signal):
        self.process.send_signal(with_signal)
        self.process.wait(WAIT_LIMIT)


def blocks(path):
    """The commands of a page by the names of their blocks."""
    found = re.findall(r"<!-- run: ([a-z-]+) -->\n```bash\n(.*?)```", Path(path).read_text(), re.DOTALL)
    return dict(found)


def shell(commands, nodes, config, postgres, answers=""):
    """Runs commands as a reader would type them at the first server, and returns what they print."""
    addresses = "".join(
        f" --connect-to {name}:8080:127.0.0.1:{node.api} --connect-to {name}:8081:127.0.0.1:{node.admin}"
        for name, node in zip(NODES, nodes)
    )
    first = nodes[0]
    prelude = f"""
        curl() {{ command curl{addresses} "$@"; }}
        conclave() {{ command {first.binary} --config {config} --data {first.data} "$@"; }}
        sudo() {{ shift 2; PGHOST={postgres.folder} PGPORT={postgres.port} PGUSER=postgres {postgres.programs}/"$@"; }}
    """
    # Without a terminal, createuser reads the password from its input.
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", prelude + commands],
        env=first.env, input=answers, capture_output=True, text=True, start_new_session=True,
    )
    if done.returncode != 0:
        fail(f"{commands}\nfailed: {done.stdout}{done.stderr}")
    return done.stdout


def settings_of_page(folder):
    """Writes the settings of the page to a file."""
    text = re.search(r"```toml\n(.*?)```", Path("docs/cluster.md").read_text(), re.DOTALL)[1]
    # The check has an address and a file of its own; the rest is as on the page.
    without = [line for line in text.splitlines() if not line.startswith("url_file")]
    path = folder / "conclave.toml"
    path.write_text("\n".join(without) + "\n")
    return path


def balancer(folder, nodes):
    """Starts HAProxy with the settings of deploy/cluster, and returns it and its port; None where it is not installed."""
    if shutil.which("haproxy") is None:
        print("skipped: haproxy is not installed", flush=True)
        return None
    port, text = free_port(), (FOLDER / "haproxy.cfg").read_text()
    text = text.replace("bind :8080", f"bind 127.0.0.1:{port}").replace(" resolvers containers init-addr none", "")
    for number, node in enumerate(nodes, 1):
        text = text.replace(f"node{number}:8080", f"127.0.0.1:{node.api} port {node.admin}")
    path = folder / "haproxy.cfg"
    path.write_text(text.replace("check port 8081", "check"))
    return subprocess.Popen(["haproxy", "-q", "-f", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), port


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
    """Starts the servers as the page says: the first one makes the keys, which the others get."""
    first, others = nodes[0], nodes[1:]
    first.start(config)
    wait("the first server is active", lambda: first.role() == "active")
    for node in others:
        node.data.mkdir(mode=0o700)
        for key in ("encryption.key", "media.key"):
            shutil.copy2(first.data / key, node.data / key)
        node.start(config)
    wait("the others are standbys", lambda: all(node.role() == "standby" for node in others))


def check_page(binary, folder):
    postgres = Postgres(folder)
    nodes, proxy = [], None
    try:
        database, config = folder / "database.url", settings_of_page(folder)
        nodes = [Node(binary, folder / name, database) for name in NODES]
        here = (nodes, config, postgres)
        shell(blocks("docs/postgresql.md")["database"], *here, answers=f"{PASSWORD}\n{PASSWORD}\n")
        quoted = PASSWORD.replace(" ", "%20")
        database.write_text(f"postgres://conclave:{quoted}@127.0.0.1:{postgres.port}/conclave\n")
        database.chmod(0o600)
        start_nodes(nodes, config)
        commands = blocks("docs/cluster.md")
        roles = shell(commands.pop("roles"), *here)
        if [json.loads(line)["role"] for line in roles.splitlines() if line] != ["active", "standby", "standby"]:
            fail(f"the roles are {roles}")
        created = shell(commands.pop("call") + '\nprintf "\\n%s" "$key"', *here)
        key = created.splitlines()[-1]
        shell(commands.pop("hand-over"), *here)
        wait("the first server is a standby", lambda: nodes[0].role() == "standby")
        for name, block in commands.items():
            shell(block, *here)
            print(f"ran {name}", flush=True)
        proxy = balancer(folder, nodes)
        check_takeover(nodes, config, key, proxy)
    finally:
        for node in nodes:
            if node.process and node.process.poll() is None:
                node.stop(signal.SIGTERM)
        if proxy:
            proxy[0].terminate()
            proxy[0].wait()
        postgres.stop()


def check_takeover(nodes, config, key, proxy):
    """A killed active server is replaced, and the room that was asked for meanwhile is created, through the load balancer if there is one."""
    active = wait("a server is active", lambda: next((node for node in nodes if node.role() == "active"), None))
    port = proxy[1] if proxy else next(node for node in nodes if node is not active).api
    wait("a room is created", lambda: create_room(port, key, "before") == 201)
    active.stop(signal.SIGKILL)
    # A load balancer may send the first ones to the server that has gone; a retry with the same key is what clients do.
    wait("a room is created after the kill", lambda: create_room(port, key, "after") == 201)
    active.start(config)
    wait("the killed server is a standby", lambda: active.role() == "standby")


def check():
    binary = os.environ.get("CONCLAVE_BIN")
    if binary is None:
        run("cargo", "build", "--quiet", "--workspace", "--bins")
        binary = f"{os.environ.get('CARGO_TARGET_DIR', 'target')}/debug/conclave"
    with tempfile.TemporaryDirectory(prefix="conclave-cluster-") as folder:
        # The user of PostgreSQL has to reach its directory.
        os.chmod(folder, 0o755)
        check_page(str(Path(binary).resolve()), Path(folder))
    print("docs/cluster.md is right", flush=True)
