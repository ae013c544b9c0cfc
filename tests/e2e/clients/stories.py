"""Scenarios of clients in a call, and their requirements. A scenario fails with an AssertionError that describes the observation."""

import time

from ..support.telling import wait_for
from ..support.watching import frames, inbound, wait_for_video
from .network import Conditions

# Observation time of tracks in seconds, from their arrival.
WATCH = 6
# Heights of the best and the worst layer that the page publishes.
BEST, WORST = 540, 180
# Number of leaves that are looked up at once, among the last events.
BATCH = 10
# More events and sessions than any scenario has.
ALL = 10_000
# Smallest share of the sent frames that must be decoded.
DECODED = 0.95


class Call:
    """A room with some clients in it, with one connection each or two. The conditions apply to the last client, or to all."""

    def __init__(self, conclave, clients, single=True, conditions=None):
        self.conclave, self.clients, self.conditions = conclave, clients, conditions
        self.single = dict(zip(clients, single if isinstance(single, tuple) else (single,) * len(clients)))
        self.room = f"call-{time.monotonic_ns()}"

    def __enter__(self):
        for client in self.clients:
            if self.conclave.network:
                has_them = self.conditions and (client is self.clients[-1] or self.conditions.are_for_all)
                self.conclave.network.conditions = self.conditions if has_them else Conditions()
            self.join(client)
        return self

    def join(self, client, **options):
        token = self.conclave.token(self.room, client.name)
        return client.call("join", url=token["url"], token=token["token"], single=self.single[client], **options)

    def __exit__(self, failure, *_):
        leaving = set() if failure else self.present(self.clients)
        for client in self.clients:
            client.call("leave")
        self.wait_for_clean_leaves(leaving)
        self.conclave.request("DELETE", f"/v1/rooms/{self.room}")
        if not failure:
            wait_for("an end of each stay in the records", self.has_whole_records)

    def present(self, clients):
        """Returns the current participants of clients."""
        names = {client.name for client in clients}
        sessions = [session for session in self.conclave.sessions(self.room, ALL) if session["participant_identity"] in names]
        newest = {session["participant_identity"]: session for session in reversed(sessions)}
        return {session["participant_sid"] for session in newest.values() if "left_at" not in session}

    def wait_for_clean_leaves(self, sids):
        """Waits until the participants of departed clients have left, and checks that no connection counts as lost."""
        wait_for("an end of each that has left", lambda: len(self.ends(sids)) == len(sids))
        ends = self.ends(sids)
        lost = [sid for sid, kind in ends.items() if kind != "participant.left"]
        assert not lost, f"{len(lost)} of {len(ends)} clients that left are recorded as lost"

    def ends(self, sids):
        """Returns the types of the events that ended participants."""
        types = {"participant.left", "participant.connection_aborted"}
        events = (event for event in self.conclave.events(self.room) if event["type"] in types)
        return {event["participant_sid"]: event["type"] for event in events if event["participant_sid"] in sids}

    def has_whole_records(self):
        """Returns whether each session has ended, and each session and each track has one start event and one end event."""
        events, sessions = self.conclave.events(self.room, ALL), self.conclave.sessions(self.room, ALL)
        of = lambda key, *types: sorted(event[key] for event in events if event["type"] in types)
        joined, tracks = of("participant_sid", "participant.joined"), of("track_sid", "track.published")
        return (
            all("left_at" in session for session in sessions)
            and joined == sorted(session["participant_sid"] for session in sessions)
            and joined == of("participant_sid", "participant.left", "participant.connection_aborted")
            and tracks == of("track_sid", "track.unpublished")
            and len(set(joined)) == len(joined) and len(set(tracks)) == len(tracks)
        )


def published_codecs(call, publisher):
    """Returns the types of a participant's published video, from the API."""
    tracks = call.conclave.request("GET", f"/v1/rooms/{call.room}/participants/{publisher.name}")["tracks"]
    return [track["mime_type"].lower() for track in tracks if track["kind"] == "video"]


def wait_for_ordered_messages(call, count):
    """Waits until each client has received this number of messages, each once and in order."""
    for client in call.clients:
        received = lambda: [message["text"] for message in client.call("received")]
        wait_for(f"all messages at {client.name}", lambda: len(received()) >= count, 30)
        assert received() == [str(number) for number in range(count)], f"not in order at {client.name}"


def sent(client):
    return sum(layer["framesSent"] or 0 for layer in client.call("stats")["outbound"] if layer["kind"] == "video")


def pictures_arrive(call):
    """Two clients see and hear each other: the sent frames are decoded, without a freeze."""
    one, two = call.clients
    for client in call.clients:
        client.call("publish")
    wait_for_video(one, two)
    before = {(client, other): (frames(client, other), sent(other)) for client, other in ((one, two), (two, one))}
    time.sleep(WATCH)
    shares = []
    for (client, other), ((decoded, frozen), sent_before) in before.items():
        now, freezes = frames(client, other)
        share = (now - decoded) / max(1, sent(other) - sent_before)
        # The two counters are not read at the same moment: one or two frames are in flight.
        assert share >= DECODED - 2 / (WATCH * 15), f"{client.name} decoded {share:.0%} of the frames of {other.name}"
        assert freezes == frozen, f"{freezes - frozen} freezes at {client.name}"
        shares.append(share)
    return f"{min(shares):.0%} of the frames at least"


def messages_arrive(call):
    """Large messages, messages to one participant, and the order of reliable ones."""
    one, two = call.clients
    one.call("send", text="large", length=60_000, topic="large")
    one.call("send", text="{n}", topic="ordered", count=200)
    one.call("send", text="for you", topic="direct", to=[two.name])
    one.call("send", text="for nobody", topic="direct", to=["somebody-else"])
    one.call("send", text="end", topic="end")
    received = wait_for("the last message", lambda: (found := two.call("received")) and found[-1]["topic"] == "end" and found)
    of = lambda topic: [message for message in received if message["topic"] == topic]
    assert [message["length"] for message in of("large")] == [60_000], of("large")
    assert [message["text"] for message in of("ordered")] == [str(number) for number in range(200)], "not in order"
    assert [message["text"] for message in of("direct")] == ["for you"], of("direct")
    assert {message["from"] for message in received} == {one.name}
    return f"{len(received)} messages in order"


def clients_leave_cleanly(call, leaves):
    """Clients that leave and rejoin repeatedly have left each time: no connection counts as lost."""
    for client in call.clients:
        sid = next(iter(wait_for("its session in the records", lambda: call.present([client]))))
        for begin in range(0, leaves, BATCH):
            left = set()
            for _ in range(min(BATCH, leaves - begin)):
                left.add(sid)
                client.call("leave")
                sid = call.join(client)["sid"]
            call.wait_for_clean_leaves(left)
    return f"{leaves} times each"


def the_server_sends(call):
    """A message from the backend reaches all participants, without a sender."""
    body = {"data": "aGVsbG8=", "topic": "news"}
    call.conclave.request("POST", f"/v1/rooms/{call.room}/send-data", body)
    for client in call.clients:
        message = wait_for("the message", lambda: [one for one in client.call("received") if one["topic"] == "news"])[0]
        assert (message["text"], message["from"]) == ("hello", None), message
    return "to everybody"


def a_late_client_sees_all(call):
    """A client that joins later sees all published tracks."""
    early, late = call.clients
    late.call("leave")
    early.call("publish")
    call.join(late)
    wait_for(f"video of {early.name} at {late.name}", lambda: frames(late, early)[0] > 5)
    return "it sees the other"


def layers_change(call):
    """A receiver requests another quality 20 times, gets it, and no change causes a freeze."""
    publisher, receiver = call.clients
    publisher.call("publish", simulcast=True)
    height = lambda: inbound(receiver, publisher)["frameHeight"] or 0
    wait_for("the best layer", lambda: height() == BEST)
    frozen, slowest = frames(receiver, publisher)[1], 0
    for turn in range(20):
        quality, expected = ("LOW", WORST) if turn % 2 == 0 else ("HIGH", BEST)
        begun = time.monotonic()
        receiver.call("quality", identity=publisher.name, quality=quality)
        wait_for(f"{quality} in turn {turn}", lambda: height() == expected)
        slowest = max(slowest, time.monotonic() - begun)
    freezes = frames(receiver, publisher)[1] - frozen
    assert freezes == 0, f"{freezes} freezes"
    return f"20 changes, the slowest after {slowest:.1f} s"


def a_moderator_acts(call):
    """Muting by the server stops the video, and a removal ends the connection."""
    one, two = call.clients
    two.call("publish")
    wait_for("video", lambda: frames(one, two)[0] > 0)
    participants = call.conclave.request("GET", f"/v1/rooms/{call.room}/participants")["participants"]
    tracks = next(one["tracks"] for one in participants if one["identity"] == two.name)
    video = next(track["sid"] for track in tracks if track["kind"] == "video")
    call.conclave.request("POST", f"/v1/rooms/{call.room}/participants/{two.name}/mute", {"track_sid": video, "muted": True})
    time.sleep(0.5)
    before = frames(one, two)[0]
    time.sleep(1.5)
    assert frames(one, two)[0] - before <= 1, f"{frames(one, two)[0] - before} frames of a muted track"
    call.conclave.request("DELETE", f"/v1/rooms/{call.room}/participants/{two.name}")
    wait_for("the end of the connection", lambda: any(event[0] == "disconnected" for event in two.call("events")))
    return "muted, then removed"
