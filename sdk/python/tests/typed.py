"""Calls that type checkers accept or reject. pyright and mypy read this file; nothing runs it.

Both report a comment `type: ignore` on an accepted line as an error.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from conclave_sdk import AsyncConclave, Conclave
from conclave_sdk.models import (
    AzureDestination,
    GcpDestination,
    NewS3Destination,
    Participant,
    RoleInput,
    Room,
    RtmpDestination,
    S3Destination,
    Token,
)
from conclave_sdk.webhooks import Event


def accepted(conclave: Conclave) -> None:
    room: Room = conclave.create_room(name="standup", metadata={"team": ["blue", 7]}, empty_timeout_seconds=60)
    started: datetime | None = room.started_at
    token: Token = conclave.create_token(room=room.name, identity="alice", role="host", idempotency_key="order-7")
    assert started or token.publish_profile is None or token.publish_profile.video.width
    conclave.create_token(room="standup", identity="bob", permissions={"can_publish": False}, timeout=3)
    participants: Iterator[Participant] = conclave.all_participants("standup")
    assert participants
    conclave.mute_track("standup", "alice", track_sid="TR_1", muted=True)
    conclave.send_data("standup", data=b"hello", destination_identities=["bob"], kind="lossy")
    conclave.start_recording("standup", type="room_composite", layout="grid")
    conclave.list_sessions(room="standup", active=True, after=datetime.now(UTC))
    conclave.exchange_code("abcd-efgh-jkmn")


def accepted_parts(conclave: Conclave) -> None:
    host: RoleInput = {"publish": {"allowed": ["audio", "video"], "video": {"height": 360}}, "max_peer_count": 1}
    template = conclave.create_template(
        name="lesson", roles={"host": host, "guest": RoleInput(permissions={"send_data": True})}
    )
    # Values from a response can be sent.
    conclave.create_template(name="copy", roles=template.roles, settings=template.settings)
    conclave.put_role(template.id, "other", publish=template.roles["host"].publish, subscribe={"to_roles": None})
    s3: NewS3Destination = {"type": "s3", "bucket": "b", "access_key": "AKIA", "secret": "s"}
    conclave.create_destination(template.id, name="archive", kind="recording", config=s3)
    conclave.create_destination(
        template.id, name="gcp", kind="recording", config={"type": "gcp", "bucket": "b", "credentials": "{}"}
    )
    conclave.create_destination(template.id, name="live", kind="rtmp", config={"urls": ["rtmp://live.test/app/key"]})
    conclave.update_destination(template.id, "archive", config={"type": "s3", "bucket": "other"})
    match conclave.get_destination(template.id, "archive").config:
        case S3Destination(bucket=bucket) | GcpDestination(bucket=bucket):
            print(bucket)
        case AzureDestination(container=container):
            print(container)
        case RtmpDestination(urls=urls):
            print(urls)
        case later:
            print(later["type"])


def accepted_event(event: Event) -> str | None:
    if event.type == "participant.joined":
        return event.participant_identity
    return event.room


async def accepted_of_asyncio(conclave: AsyncConclave) -> None:
    token: Token = await conclave.create_token(room="standup", identity="alice")
    assert token.role is None
    async for room in conclave.all_rooms(limit=10):
        print(room.name)


def refused(conclave: Conclave) -> None:
    conclave.create_room()  # type: ignore[call-arg]
    conclave.create_room("standup")  # type: ignore[call-arg]
    conclave.create_room(name=7)  # type: ignore[arg-type]
    conclave.create_room(name="standup", max_participant=7)  # type: ignore[call-arg]
    conclave.list_rooms(idempotency_key="order-7")  # type: ignore[call-arg]
    conclave.get_room()  # type: ignore[call-arg]
    conclave.start_recording("standup", type="room")  # type: ignore[arg-type]
    conclave.create_template(name="lesson", roles={"host": {"publish": {"allow": []}}})  # type: ignore[dict-item]
    conclave.put_role("tpl_1", "host", permissions={"record": "yes"})  # type: ignore[arg-type]
    conclave.create_destination("tpl_1", name="live", kind="rtmp", config={"type": "s3"})  # type: ignore[call-overload]
    room = conclave.get_room("standup")
    room.name = "other"  # type: ignore[misc]
    room.started_at.isoformat()  # type: ignore[union-attr]
    room.owner  # type: ignore[attr-defined] # noqa: B018
