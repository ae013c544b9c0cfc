"""A call on the embedded media plane whose server is killed goes on at the next one, with the same url and tokens: of LiveKit's Python SDK
and of livekit-client in the browsers that are installed."""

import itertools
import json
import os
import signal
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import page
import preparation
import servers
from browser import Browser, Pages
from native import Native
from remote import ClientError
from stories import frames, inbound, wait_for_video

# The most seconds from the kill until each client has new video of all others.
LIMIT = 15


class CallNode(servers.Node):
    """A server that clients of calls reach on this machine, each with media ports of its own."""

    def __init__(self, binary, folder, database, api, public):
        super().__init__(binary, folder, database, api)
        self.env |= {
            "CONCLAVE_MEDIA__PUBLIC_URL": f"ws://127.0.0.1:{public}",
            "CONCLAVE_MEDIA__RTC__LOOPBACK": "true",
            "CONCLAVE_MEDIA__RTC__UDP_PORTS": str(servers.free_port()),
        }


def post(node, key, path, body):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{node.api}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def start_clients(ends):
    """Returns the clients of the call, which end with `ends`."""
    pages, clients = Pages(), [Native("python")]
    for kind, is_installed in (("chromium", preparation.has_chromium()), ("firefox", preparation.has_firefox())):
        if is_installed:
            clients.append(Browser(kind, pages, kind))
        else:
            print(f"skipped: {kind} is not installed", flush=True)
    # A call has two clients at least.
    clients += [] if clients[1:] else [Native("another-python")]
    for client in clients:
        ends.callback(client.close)
    return clients


def until_back(before, killed):
    """Waits until each client receives new video of all others. Returns after how many seconds each did."""
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
    active.stop(signal.SIGKILL)
    took = until_back(before, time.monotonic())
    times = ", ".join(f"{name} after {seconds:.1f} s" for name, seconds in took.items())
    print(f"video again after the kill: {times}", flush=True)


def check_in(folder, binary):
    postgres, nodes = servers.Postgres(folder), []
    try:
        database, config = folder / "database.url", page.settings_of_page(folder)
        postgres.create_database(database)
        # Clients call the second server, which stays.
        called = servers.free_port()
        apis = (None, called, None)
        nodes = [CallNode(binary, folder / name, database, api, called) for name, api in zip(servers.NODES, apis)]
        servers.start_nodes(nodes, config)
        project = nodes[0].command(config, "project", "create", "--name", "calls")["project_id"]
        key = nodes[0].command(config, "key", "create", project)["key"]
        roles = {"host": {}}
        template = post(nodes[1], key, "/v1/templates", {"name": "calls", "roles": roles})
        post(nodes[1], key, "/v1/rooms", {"name": "call", "template_id": template["id"]})
        token = lambda identity: post(nodes[1], key, "/v1/tokens", {"room": "call", "identity": identity, "role": "host"})
        with ExitStack() as ends:
            check_call(nodes, start_clients(ends), token)
    finally:
        for node in nodes:
            node.end()
        postgres.stop()


def check(binary):
    status = 0
    try:
        with tempfile.TemporaryDirectory(prefix="conclave-calls-") as folder:
            Path(folder).chmod(0o755)
            check_in(Path(folder), binary)
    except (AssertionError, ClientError) as failure:
        print(f"check-cluster: {failure}", flush=True)
        status = 1
    # The threads of the SDK do not end by themselves.
    os._exit(status)
