"""Metadata and data tracks of clients."""

from ..support.telling import wait_for

# A frame that is larger than a packet.
LONG = "long " * 4_000


def own_metadata_is_seen(call):
    """A client whose role permits it changes its name and attributes, and others see the change, including a client that joins later."""
    one, two = call.clients
    roles = {"speaker": {"permissions": {"update_own_metadata": True}, "attributes": {"team": "blue"}}, "host": {}}
    template = call.conclave.request("POST", "/v1/templates", {"name": call.room, "roles": roles})
    room = f"{call.room}-stage"
    call.conclave.request("POST", "/v1/rooms", {"name": room, "template_id": template["id"]})

    def join(client, role):
        token = call.conclave.request("POST", "/v1/tokens", {"room": room, "identity": client.name, "role": role})
        client.call("join", url=token["url"], token=token["token"], single=call.single[client])

    def await_attributes(client, of, name, attributes):
        def is_seen():
            seen = client.call("described", identity=of.name)
            own = {key: value for key, value in (seen or {}).get("attributes", {}).items() if not key.startswith("svc.")}
            return seen and seen["name"] == name and own == attributes

        wait_for(f"what {of.name} says of itself at {client.name}", is_seen)

    join(one, "speaker")
    join(two, "host")
    await_attributes(two, one, "", {"team": "blue"})
    one.call("describe", name="One", attributes={"hand": "up", "team": ""})
    await_attributes(two, one, "One", {"hand": "up"})
    join(two, "host")
    await_attributes(two, one, "One", {"hand": "up"})
    for client in call.clients:
        client.call("leave")
    call.conclave.request("DELETE", f"/v1/rooms/{room}")
    for client in call.clients:
        call.join(client)
    return "a name, attributes and those of the role"


def data_tracks_arrive(call):
    """Frames of a data track arrive at a subscriber, both short and long ones."""
    one, two = call.clients
    one.call("publishData", name="position")
    frames = lambda: [frame["text"] for frame in two.call("dataFrames") if (frame["from"], frame["track"]) == (one.name, "position")]

    def arrives(text):
        # Frames sent before the server knows the subscription are lost, as media is.
        one.call("pushData", name="position", text=text)
        return text in frames()

    for text in ("first", LONG):
        wait_for(f"a frame of {len(text)} bytes", lambda: arrives(text))
    participants = call.conclave.request("GET", f"/v1/rooms/{call.room}/participants")["participants"]
    kinds = {track["kind"] for participant in participants for track in participant["tracks"]}
    assert kinds == {"data"}, kinds
    return f"frames of up to {len(LONG)} bytes"
