"""A call on the embedded media plane whose server is killed continues on the next server, with the same URL and tokens: with LiveKit's
Python SDK and with livekit-client in the installed browsers."""

import itertools
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from ..support import cluster, preparation
from ..support.browser import Browser, Pages
from ..support.native import Native
from ..support.remote import ClientError
from ..support.server import free_port
from ..support.watching import frames, inbound, wait_for_video
from . import page

# Longest time in seconds from the kill until each client has new video from all others.
LIMIT = 15


class CallNode(cluster.Node):
    """A server for call clients on this machine, with its own media ports."""

    def __init__(self, binary, folder, name, database, api, public):
        super().__init__(binary, folder, name, database, api)
        self.own_settings |= {
            "CONCLAVE_MEDIA__PUBLIC_URL": f"ws://127.0.0.1:{public}",
            "CONCLAVE_MEDIA__RTC__LOOPBACK": "true",
            "CONCLAVE_MEDIA__RTC__UDP_PORTS": str(free_port()),
        }


def start_clients(ends):
    """Returns the call's clients, which `ends` closes."""
    pages, clients = Pages(), [Native("python")]
    for kind, is_installed in (("chromium", preparation.has_chromium()), ("firefox", preparation.has_firefox())):
        if is_installed:
            clients.append(Browser(kind, pages, kind))
        else:
            print(f"skipped: {kind} is not installed", flush=True)
    # A call needs at least two clients.
    clients += [] if clients[1:] else [Native("another-python")]
    for client in clients:
        ends.callback(client.close)
    return clients


def until_back(before, killed):
    """Waits until each client receives new video from all others. Returns the time of each client in seconds."""
    waiting, took = list(before), {}
    while waiting:
        for client, publisher in list(waiting):
            is_new = inbound(client, publisher)["trackSid"] != before[client, publisher]
            if is_new and frames(client, publisher)[0] > 0:
                waiting.remove((client, publisher))
                took[client.name] = time.monotonic() - killed
        if waiting and time.monotonic() > killed + LIMIT:
            missing = ", ".join(f"{publisher.name} at {client.name}" for client, publisher in waiting)
            raise AssertionError(f"no new video {LIMIT} s after the kill: {missing}")
        time.sleep(0.05)
    return took


def check_call(nodes, clients, token):
    for client in clients:
        joined = token(client.name)
        client.call("join", url=joined["url"], token=joined["token"], single=True)
        client.call("publish")
    wait_for_video(*clients)
    before = {pair: inbound(*pair)["trackSid"] for pair in itertools.permutations(clients, 2)}
    active = next(node for node in nodes if node.role() == "active")
    active.kill()
    took = until_back(before, time.monotonic())
    times = ", ".join(f"{name} after {seconds:.1f} s" for name, seconds in took.items())
    print(f"video again after the kill: {times}", flush=True)


def check_in(folder, binary):
    postgres, nodes = cluster.Postgres(folder), []
    try:
        database, config = folder / "database.url", page.settings_of_page(folder)
        postgres.create_database(database)
        # Clients connect to the second server, which stays.
        called = free_port()
        apis = (None, called, None)
        nodes = [CallNode(binary, folder, name, database, api, called) for name, api in zip(cluster.NODES, apis)]
        cluster.start_nodes(nodes, config)
        project = nodes[0].run(config, "project", "create", "--name", "calls")["project_id"]
        key = nodes[0].run(config, "key", "create", project)["key"]
        roles = {"host": {}}
        template = nodes[1].call("POST", "/v1/templates", key, {"name": "calls", "roles": roles})
        nodes[1].call("POST", "/v1/rooms", key, {"name": "call", "template_id": template["id"]})
        token = lambda identity: nodes[1].call("POST", "/v1/tokens", key, {"room": "call", "identity": identity, "role": "host"})
        with ExitStack() as ends:
            check_call(nodes, start_clients(ends), token)
    finally:
        for node in nodes:
            node.stop()
        postgres.stop()


def check(binary):
    status = 0
    try:
        with tempfile.TemporaryDirectory(prefix="conclave-calls-") as folder:
            Path(folder).chmod(0o755)
            check_in(Path(folder), binary)
    except (AssertionError, ClientError) as failure:
        print(f"cluster-page: {failure}", flush=True)
        status = 1
    # The SDK's threads do not end by themselves.
    os._exit(status)
