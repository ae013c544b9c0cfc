"""Scenarios in which connections are lost and return."""

import time

from ..support.telling import wait_for
from ..support.watching import frames, inbound, wait_for_more_video, wait_for_video
from .stories import wait_for_ordered_messages

# Time limit in seconds for clients to return after the server.
BACK = 5


def connections_come_back(call, scenario):
    """The signalling, or everything, is lost for a moment: the client reconnects, and its video continues."""
    browser, other = call.clients
    for client in call.clients:
        client.call("publish")
    wait_for_video(browser, other)
    back = browser.call("simulate", scenario=scenario)
    wait_for_more_video(browser, other)
    return f"back after {back['ms']} ms"


def messages_survive_a_resume(call):
    """Reliable messages that are sent during a resume arrive once and in order, in both directions."""
    for client in call.clients:
        client.call("send", text="{n}", topic="ordered", count=1_000, interval=2)
    browser, other = call.clients
    back = browser.call("simulate", scenario="signal-reconnect")
    wait_for_ordered_messages(call, 1_000)
    return f"1000 messages each way in order, back after {back['ms']} ms"


def the_server_comes_back(call):
    """The server is killed. Soon after its restart all clients are in the call again."""
    one, two = call.clients
    for client in call.clients:
        client.call("publish")
    wait_for_video(one, two)
    pairs = (one, two), (two, one)
    before = {client: inbound(client, publisher)["trackSid"] for client, publisher in pairs}
    call.conclave.kill()
    call.conclave.start()
    returned = time.monotonic()
    for client, publisher in pairs:
        is_back = lambda: inbound(client, publisher)["trackSid"] != before[client] and frames(client, publisher)[0] > 0
        wait_for(f"new video of {publisher.name} at {client.name}", is_back, returned + BACK - time.monotonic())
    return f"all are back after {time.monotonic() - returned:.1f} s"
