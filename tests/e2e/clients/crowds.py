"""Many tracks, and many participants behind one address, within the default limits of signalling."""

from concurrent.futures import ThreadPoolExecutor

from ..support.native import Native
from ..support.telling import wait_for

TRACKS = 50
# Duration and rate of muting and unmuting by a person.
SECONDS, PER_SECOND = 30, 5


class Member(Native):
    """A client that receives no tracks: 20 clients that each receive all others' exceed a machine of two cores."""

    subscribes = False


def assert_nobody_was_closed(call):
    for client in call.clients:
        events = client.call("events")
        assert not events, f"{client.name}: {events}"
    assert call.conclave.excesses() == 0, "a client was closed for what it sent"


def fifty_tracks_arrive(call):
    """A client publishes 50 tracks at once, and the other receives all of them, in both directions."""
    one, two = call.clients
    for publisher, receiver in ((one, two), (two, one)):
        publisher.call("publishMany", count=TRACKS, timeout=90)
        arriving = lambda: receiver.call("arriving", identity=publisher.name)
        wait_for(f"{TRACKS} tracks of {publisher.name} at {receiver.name}", lambda: arriving() == TRACKS, 90)
    assert_nobody_was_closed(call)
    return f"{TRACKS} each"


def twenty_mute_and_unmute(call):
    """All participants mute and unmute at once, as fast as a person can, and none is disconnected."""
    with ThreadPoolExecutor(len(call.clients)) as pool:
        list(pool.map(lambda client: client.call("publishMany", count=2, silent=True), call.clients))
        list(pool.map(lambda client: client.call("toggle", timeout=120, seconds=SECONDS, perSecond=PER_SECOND), call.clients))
    participants = lambda: call.conclave.request("GET", f"/v1/rooms/{call.room}/participants?limit=100")["participants"]
    tracks = lambda: [track for participant in participants() for track in participant["tracks"]]
    wait_for("all tracks unmuted", lambda: not any(track["muted"] for track in tracks()))
    assert len(tracks()) == 2 * len(call.clients), f"{len(tracks())} tracks"
    assert_nobody_was_closed(call)
    return f"{len(call.clients)} of them, {SECONDS * PER_SECOND} changes each"
