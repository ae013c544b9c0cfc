from typing import Literal, cast

EventType = Literal[
    "broadcast.ended",
    "broadcast.failed",
    "broadcast.started",
    "broadcast.updated",
    "ingress.ended",
    "ingress.started",
    "participant.connection_aborted",
    "participant.joined",
    "participant.left",
    "participant.publish_limit_cleared",
    "participant.publish_limit_exceeded",
    "participant.role_changed",
    "recording.ended",
    "recording.failed",
    "recording.started",
    "recording.updated",
    "room.finished",
    "room.started",
    "track.published",
    "track.unpublished",
]


def check_event_type(value: str) -> EventType:
    # Whatever a newer server says is passed on.
    return cast(EventType, value)
