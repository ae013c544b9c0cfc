"""Counters of the media that clients receive from each other, and waiting for them."""

import itertools
from collections import defaultdict

from .telling import wait_for


def inbound(client, publisher, kind="video"):
    """Returns the counters of a publisher's track at a client; all are 0 at first."""
    return defaultdict(int, client.call("stats")["inbound"].get(f"{publisher.name} {kind}") or {})


def frames(client, publisher):
    found = inbound(client, publisher)
    return found["framesDecoded"] or 0, found["freezeCount"] or 0


def has_height(counters, height):
    """Returns whether counters belong to the layer of this height. Encoders round it."""
    return abs((counters.get("frameHeight") or 0) - height) < 2


def sees(client, publisher, height):
    """Returns whether a client receives the layer of this height."""
    return has_height(inbound(client, publisher), height)


def wait_for_video(*clients):
    """Waits until each client sees the others."""
    for client, publisher in itertools.permutations(clients, 2):
        wait_for(f"video of {publisher.name} at {client.name}", lambda: frames(client, publisher)[0] > 0)


def wait_for_more_video(*clients, seconds=20):
    """Waits until each client sees new frames from the others, of the same tracks or of new ones."""
    for client, publisher in itertools.permutations(clients, 2):
        before = inbound(client, publisher)

        def has_gone_on():
            now = inbound(client, publisher)
            is_same = now["trackSid"] == before["trackSid"]
            return (now["framesDecoded"] or 0) >= (before["framesDecoded"] or 0) * is_same + 5

        wait_for(f"more video of {publisher.name} at {client.name}", has_gone_on, seconds)
