"""The page's commands, run against three servers."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..support import preparation
from ..support.blocks import blocks
from ..support.cluster import NODES, PASSWORD, TOKEN, Node, Postgres, create_room, fail, start_nodes, wait
from ..support.server import free_port
from .files import FOLDER


def shell(commands, nodes, config, postgres, answers=""):
    """Runs commands as a reader would type them on the first server, and returns their output."""
    addresses = "".join(
        f" --connect-to {name}:8080:127.0.0.1:{node.api} --connect-to {name}:8081:127.0.0.1:{node.admin}"
        for name, node in zip(NODES, nodes)
    )
    first = nodes[0]
    # On its own machine, the page calls the admin listener, with the admin token that the page requires.
    here = f"--connect-to 127.0.0.1:8081:127.0.0.1:{first.admin} --header 'Authorization: Bearer {TOKEN}'"
    prelude = f"""
        curl() {{ case "$*" in *127.0.0.1:8081*) set -- --fail {here} "$@" ;; esac; command curl{addresses} "$@"; }}
        conclave() {{ command {first.program} --config {config} --data {first.data} "$@"; }}
        sudo() {{ shift 2; PGHOST={postgres.folder} PGPORT={postgres.port} PGUSER=postgres {postgres.programs}/"$@"; }}
    """
    # Without a terminal, createuser reads the password from standard input.
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", prelude + commands],
        env=first.environment(), input=answers, capture_output=True, text=True, start_new_session=True,
    )
    if done.returncode != 0:
        fail(f"{commands}\nfailed: {done.stdout}{done.stderr}")
    return done.stdout


def settings_of_page(folder):
    """Writes the page's settings to a file."""
    text = re.search(r"```toml\n(.*?)```", Path("docs/cluster.md").read_text(), re.DOTALL)[1]
    # The check has its own address and file; the other settings are the page's.
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


def check_page(binary, folder):
    postgres = Postgres(folder)
    nodes, proxy = [], None
    try:
        database, config = folder / "database.url", settings_of_page(folder)
        nodes = [Node(binary, folder, name, database) for name in NODES]
        here = (nodes, config, postgres)
        shell(blocks("docs/postgresql.md")["database"], *here, answers=f"{PASSWORD}\n{PASSWORD}\n")
        postgres.write_url(database, "conclave")
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
        check_database_page(nodes, config, postgres)
    finally:
        for node in nodes:
            node.stop()
        if proxy:
            proxy[0].terminate()
            proxy[0].wait()
        postgres.stop()


def check_takeover(nodes, config, key, proxy):
    """A killed active server is replaced, and the room requested meanwhile is created, through the load balancer if there is one."""
    active = wait("a server is active", lambda: next((node for node in nodes if node.role() == "active"), None))
    port = proxy[1] if proxy else next(node for node in nodes if node is not active).api
    wait("a room is created", lambda: create_room(port, key, "before") == 201)
    active.kill()
    # A load balancer may send the first requests to the dead server; clients retry with the same key.
    wait("a room is created after the kill", lambda: create_room(port, key, "after") == 201)
    active.start(config)
    wait("the killed server is a standby", lambda: active.role() == "standby")


def check_postgres_settings(postgres):
    """PostgreSQL accepts the settings in docs/postgresql.md and their values."""
    settings = re.search(r"```ini\n(.*?)```", Path("docs/postgresql.md").read_text(), re.DOTALL)[1]
    for name, value in re.findall(r"^(\w+) = '?(.*?)'?$", settings, re.MULTILINE):
        postgres.call("postgres", "-C", name, "-c", f"{name}={value}")


def check_database_page(nodes, config, postgres):
    """The commands of docs/postgresql.md for servers that share a database."""
    check_postgres_settings(postgres)
    commands = blocks("docs/postgresql.md")
    active_first = lambda: sorted(nodes, key=lambda node: node.role() != "active")
    for line in commands["hand-over"].splitlines():
        wait("a server is active", lambda: "active" in [node.role() for node in nodes])
        active, *others = active_first()
        shell(line, (active, *others), config, postgres)
        wait("the server is a standby", lambda: active.role() == "standby")
    shell(commands["migrate"], nodes, config, postgres)
    *others, changed = active_first()
    restart(changed, config, lambda: (changed.data / "media.key").unlink())
    wait("the server has another key", lambda: changed.role() == "wrong_keys")
    shell(commands["media-key"], (changed, *others), config, postgres)
    for node in others:
        restart(node, config, lambda: shutil.copy2(changed.data / "media.key", node.data / "media.key"))
    wait("all have the new key", lambda: {node.role() for node in nodes} == {"active", "standby"})


def restart(node, config, change):
    node.stop()
    change()
    node.start(config)


def check():
    with tempfile.TemporaryDirectory(prefix="conclave-cluster-") as folder:
        # PostgreSQL's user must reach its directory.
        os.chmod(folder, 0o755)
        check_page(preparation.program(), Path(folder))
    print("docs/cluster.md and docs/postgresql.md are right", flush=True)
