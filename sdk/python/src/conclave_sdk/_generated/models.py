"""The types of the API and of its events.

Made by `sdk/generate` from the description of the API. Not edited by hand.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from .._model import SECRET, Model

__all__ = [
    "AudioCodec",
    "AudioInput",
    "AudioProfile",
    "AzureDestination",
    "AzureDestinationInput",
    "Ban",
    "BanPage",
    "Broadcast",
    "BroadcastEndedEvent",
    "BroadcastFailedEvent",
    "BroadcastPage",
    "BroadcastStartedEvent",
    "BroadcastUpdatedEvent",
    "ClientProgram",
    "DataKind",
    "DataSent",
    "DeliveryStatus",
    "Destination",
    "DestinationKind",
    "DestinationList",
    "DirectionQuality",
    "DirectionQualitySample",
    "EgressStatus",
    "ErasedIdentity",
    "ErasedRowCounts",
    "Event",
    "EventRecord",
    "EventRecordPage",
    "EventType",
    "GcpDestination",
    "GcpDestinationInput",
    "Ingress",
    "IngressCreated",
    "IngressEndedEvent",
    "IngressPage",
    "IngressStartedEvent",
    "IngressStatus",
    "InputType",
    "Layout",
    "LiveRoom",
    "LiveRoomPage",
    "MeasuredSession",
    "MeasuredSessionPage",
    "MediaConnection",
    "MutedTrack",
    "NewAzureDestination",
    "NewGcpDestination",
    "NewS3Destination",
    "Participant",
    "ParticipantConnectionAbortedEvent",
    "ParticipantJoinedEvent",
    "ParticipantKind",
    "ParticipantLeftEvent",
    "ParticipantPage",
    "ParticipantPublishLimitClearedEvent",
    "ParticipantPublishLimitExceededEvent",
    "ParticipantRecording",
    "ParticipantRecordings",
    "ParticipantRoleChangedEvent",
    "ParticipantState",
    "Permissions",
    "PlanFeatures",
    "PlanLimits",
    "PlanStatus",
    "PublishKind",
    "QuotaState",
    "ReconnectCounts",
    "Recording",
    "RecordingEndedEvent",
    "RecordingFailedEvent",
    "RecordingPage",
    "RecordingStartedEvent",
    "RecordingType",
    "RecordingUpdatedEvent",
    "Region",
    "Role",
    "RoleChange",
    "RoleChangePage",
    "RoleChangeResult",
    "RoleInput",
    "RolePermissions",
    "RolePermissionsInput",
    "RolePublish",
    "RolePublishInput",
    "RoleSubscribe",
    "RoleSubscribeInput",
    "Room",
    "RoomCode",
    "RoomCodePage",
    "RoomFinishedEvent",
    "RoomPage",
    "RoomStartedEvent",
    "RoomStatus",
    "RtmpDestination",
    "RtmpDestinationInput",
    "S3Destination",
    "S3DestinationInput",
    "Session",
    "SessionDetail",
    "SessionPage",
    "SessionQuality",
    "SessionQualitySample",
    "SessionQualitySamplePage",
    "SessionQualitySummary",
    "SessionTrack",
    "Template",
    "TemplatePage",
    "TemplateSettings",
    "TemplateSettingsDetail",
    "TemplateSettingsInput",
    "Token",
    "Track",
    "TrackKind",
    "TrackPublishedEvent",
    "TrackSource",
    "TrackUnpublishedEvent",
    "UnrecordedParticipant",
    "Usage",
    "UsageDay",
    "VideoCodec",
    "VideoInput",
    "VideoProfile",
    "WebhookDelivery",
    "WebhookDeliveryPage",
    "WebhookEndpoint",
    "WebhookEndpointCreated",
    "WebhookEndpointDisabledEvent",
    "WebhookEndpointPage",
    "WebhookSecretRotated",
    "WebhookTestEvent",
]
AudioCodec: TypeAlias = Literal["opus"]
"""An audio codec."""
DataKind: TypeAlias = Literal["reliable", "lossy"]
"""The delivery of a data message."""
DeliveryStatus: TypeAlias = Literal["pending", "delivered", "failed"]
"""The status of a delivery. A retry makes a failed delivery pending again."""
DestinationKind: TypeAlias = Literal["recording", "rtmp"]
"""Purpose of a destination."""
EgressStatus: TypeAlias = Literal["starting", "active", "ending", "complete", "failed", "aborted", "limit_reached"]
"""The status of a recording or a broadcast. It only moves forward, and never leaves one of the last
four.
"""
EventType: TypeAlias = Literal[
    "room.started",
    "room.finished",
    "participant.joined",
    "participant.left",
    "participant.connection_aborted",
    "participant.role_changed",
    "participant.publish_limit_exceeded",
    "participant.publish_limit_cleared",
    "track.published",
    "track.unpublished",
    "recording.started",
    "recording.updated",
    "recording.ended",
    "recording.failed",
    "broadcast.started",
    "broadcast.updated",
    "broadcast.ended",
    "broadcast.failed",
    "ingress.started",
    "ingress.ended",
]
"""The name of an event."""
IngressStatus: TypeAlias = Literal["inactive", "buffering", "publishing", "error", "complete", "deleted"]
"""The status of an ingress endpoint."""
InputType: TypeAlias = Literal["rtmp", "whip"]
"""The protocol by which an encoder publishes."""
Layout: TypeAlias = Literal["speaker", "grid"]
"""The arrangement of the participants in a composite video of the room."""
MediaConnection: TypeAlias = Literal["udp", "tcp", "turn"]
"""Way by which media reaches a participant."""
ParticipantKind: TypeAlias = Literal["standard", "ingress", "egress", "sip", "agent"]
"""The kind of a participant."""
ParticipantState: TypeAlias = Literal["joining", "joined", "active", "disconnected"]
"""The state of a join."""
PublishKind: TypeAlias = Literal["audio", "video", "screen", "data"]
"""A kind of media or data that a role may publish."""
QuotaState: TypeAlias = Literal["active", "suspended", "exceeded"]
"""A project's quota, as the plan status shows it."""
RecordingType: TypeAlias = Literal["room_composite", "track", "participant"]
"""The part of a room that a recording contains."""
Region: TypeAlias = Literal["auto", "af-east", "eu-west", "us-east"]
"""A media region. Stored and validated; it does not change where traffic goes today."""
RoomStatus: TypeAlias = Literal["open", "ended"]
"""The status of a room. The only transition is from open to ended."""
TrackKind: TypeAlias = Literal["audio", "video", "data"]
"""The media type of a track."""
TrackSource: TypeAlias = Literal["camera", "microphone", "screen_share", "screen_share_audio", "unknown"]
"""The source of a track."""
VideoCodec: TypeAlias = Literal["vp8", "h264", "vp9", "av1"]
"""A video codec."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class AudioProfile(Model):
    """The encoding of audio."""

    max_kbps: int
    """Bitrate in kilobits a second."""
    codec: AudioCodec
    """The audio codec; only Opus today."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class AzureDestination(Model):
    """Azure Blob Storage."""

    type: Literal["azure"] = "azure"
    container: str
    """The container that files are written to."""
    account_name: str
    """The account's name."""
    account_key: str | None = field(default=None, metadata=SECRET)
    """The account's key; reads back as `***`."""
    prefix: str | None = None
    """A prefix of each file's path."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Ban(Model):
    """An identity that may not join a room."""

    id: str
    """The id of a ban of an identity from a room."""
    room: str
    """The name of a room, which a project uses once."""
    identity: str
    """The identity of a participant, unique in its room while the participant is connected. Not `.` or
    `..`, which HTTP clients resolve as steps in a path.
    """
    created_at: datetime.datetime
    updated_at: datetime.datetime
    reason: str | None = None
    until: datetime.datetime | None = None
    """The identity may join again from this time on; absent: the ban lasts until it is lifted."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BanPage(Model):
    """A page of a list."""

    bans: list[Ban]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Broadcast(Model):
    """A broadcast."""

    id: str
    """The key of a recording's or a broadcast's record."""
    project_id: str
    """The id of a project: `prj_` and twelve lower-case hex digits."""
    room: str
    """The name of a room, which a project uses once."""
    namespaced_room: str
    """The name of a room on the media plane: project id, dot, room name."""
    egress_id: str
    """Id for later calls."""
    started_at: datetime.datetime
    created_at: datetime.datetime
    urls: list[str]
    """The receiving URLs, each stream key replaced by `REDACTED`."""
    status: EgressStatus
    """The status of a recording or a broadcast. It only moves forward, and never leaves one of the last
    four.
    """
    destination: str | None = None
    """Destination that was used, if one was named."""
    destination_id: str | None = None
    """The id of a destination: `dst_` and twelve lower-case hex digits."""
    ended_at: datetime.datetime | None = None
    """Absent until the status is final."""
    error: str | None = None
    """Set when the status is `failed`."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BroadcastEndedEvent(Model):
    """A broadcast is final."""

    type: Literal["broadcast.ended"] = "broadcast.ended"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    egress_id: str
    """The id of the broadcast."""
    broadcast_status: EgressStatus
    """Its status at the time of the event."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BroadcastFailedEvent(Model):
    """A broadcast has failed; sent instead of `broadcast.ended`."""

    type: Literal["broadcast.failed"] = "broadcast.failed"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    egress_id: str
    """The id of the broadcast."""
    broadcast_status: EgressStatus
    """Its status at the time of the event."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BroadcastPage(Model):
    """A page of a list."""

    broadcasts: list[Broadcast]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BroadcastStartedEvent(Model):
    """A broadcast has started."""

    type: Literal["broadcast.started"] = "broadcast.started"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    egress_id: str
    """The id of the broadcast."""
    broadcast_status: EgressStatus
    """Its status at the time of the event."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BroadcastUpdatedEvent(Model):
    """The status of a broadcast has changed, and is not final."""

    type: Literal["broadcast.updated"] = "broadcast.updated"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    egress_id: str
    """The id of the broadcast."""
    broadcast_status: EgressStatus
    """Its status at the time of the event."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ClientProgram(Model):
    """The client's program. A text is empty if the client does not state it."""

    sdk: str
    """Such as `js`."""
    version: str
    """The SDK's version."""
    browser: str
    """With its version."""
    os: str


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class DataSent(Model):
    """Response to a sent message."""

    sent: bool
    """Whether the media plane accepted the message; always true."""
    bytes: int
    """Size of the decoded message."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Destination(Model):
    """A destination."""

    id: str
    """The id of a destination: `dst_` and twelve lower-case hex digits."""
    template_id: str
    """The id of a template: `tpl_` and twelve lower-case hex digits."""
    name: str
    """The name of a destination, unique in its template."""
    kind: DestinationKind
    """Purpose of a destination."""
    config: S3Destination | GcpDestination | AzureDestination | RtmpDestination | dict[str, Any]
    """Without its secrets."""
    created_at: datetime.datetime
    updated_at: datetime.datetime


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class DestinationList(Model):
    """All of a template's destinations, newest first."""

    destinations: list[Destination]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class DirectionQuality(Model):
    """A session's media in one direction."""

    packets: int
    loss: float
    """Share of lost packets, 0 to 1."""
    kbps: int
    """Mean bitrate."""
    width: int
    """Width of the largest video; 0 without video, or if its publisher does not state it."""
    height: int
    """Height of the largest video."""
    freezes: int
    """Freezes of videos from cameras."""
    frozen_ms: int
    """Total length of the freezes."""
    layer_switches: int
    """Changes of the forwarded simulcast or SVC layer."""
    codecs: list[str]
    """In the order of first use."""
    frame_rate: int | None = None
    """Mean frames per second of the largest video."""
    jitter_ms: int | None = None
    """Mean of the samples' jitter."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class DirectionQualitySample(Model):
    """Measurements of a session's media in one direction, in ten seconds."""

    packets: int
    loss: float
    """Share of lost packets, 0 to 1."""
    kbps: int
    width: int
    """Width of the largest video; 0 without video, or if its publisher does not state it."""
    height: int
    """Height of the largest video."""
    frame_rate: int
    """Frames per second of the largest video."""
    freezes: int
    frozen_ms: int
    layer_switches: int
    jitter_ms: int | None = None
    """Largest jitter of a stream."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ErasedIdentity(Model):
    """Result of an erasure."""

    replacement: str
    """Random identity that the person's rows have from now on. It cannot be turned back."""
    changed: ErasedRowCounts
    """Rows that were changed by this call."""
    deleted_files: int
    """Recording files of the participant, and of its tracks, that were deleted by this call."""
    remaining_recordings: list[Recording]
    """Recordings whose files remain and in which the person may be seen or heard, oldest first, at most
    1,000: composites, recordings for destinations, and files that are not on this server.
    """
    has_more: bool
    """Whether there are more of them."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ErasedRowCounts(Model):
    """Changed rows by kind."""

    sessions: int
    role_changes: int
    """Role changes of the participant, and by the participant."""
    codes: int
    """Room codes that were locked to the identity. They are disabled."""
    ingresses: int
    """Ingress endpoints. They are deleted."""
    recordings: int
    """Recordings of the participant and of its tracks."""
    bans: int
    """Bans, without their reasons, and revocations of tokens. They no longer apply."""
    events: int
    """Events, with their webhook deliveries."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class EventRecord(Model):
    """An event of the project."""

    id: int
    """Larger than the id of every earlier event of the project."""
    type: str
    room: str
    created_at: datetime.datetime
    """When the event was recorded; `occurred_at` in the payload is when it happened."""
    payload: dict[str, Any]
    """The event as webhook endpoints receive it."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class EventRecordPage(Model):
    """A page of a list."""

    events: list[EventRecord]
    limit: int
    offset: int
    has_more: bool
    cursor: int
    """The position after this page: `after` of the next request."""
    gap: bool
    """Whether items after `after` are missing: they were deleted because of their age, or the server's
    records are older than `after`.
    """


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class GcpDestination(Model):
    """Google Cloud Storage."""

    type: Literal["gcp"] = "gcp"
    bucket: str
    """The bucket that files are written to."""
    credentials: str | None = field(default=None, metadata=SECRET)
    """A service account's key, as the JSON text that Google gives; reads back as `***`."""
    prefix: str | None = None
    """A prefix of each file's path."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Ingress(Model):
    """An ingress endpoint."""

    id: str
    """The key of an ingress endpoint's record."""
    project_id: str
    """The id of a project: `prj_` and twelve lower-case hex digits."""
    room: str
    """The room it publishes into."""
    namespaced_room: str
    """The name of a room on the media plane: project id, dot, room name."""
    ingress_id: str
    """Id for later calls."""
    input_type: InputType
    """The protocol by which an encoder publishes."""
    participant_identity: str
    """Identity with which the encoder joins."""
    url: str
    """URL that the encoder publishes to, its stream key replaced by `REDACTED`."""
    status: IngressStatus
    """The status of an ingress endpoint."""
    created_at: datetime.datetime
    updated_at: datetime.datetime
    deleted_at: datetime.datetime | None = None
    """Absent until deleted."""
    error: str | None = None
    """Description of the failure; present while `status` is `error`."""
    participant_name: str | None = None
    """Absent when none was given."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class IngressCreated(Model):
    """A created ingress endpoint with its stream key."""

    id: str
    """The key of an ingress endpoint's record."""
    project_id: str
    """The id of a project: `prj_` and twelve lower-case hex digits."""
    room: str
    """The room it publishes into."""
    namespaced_room: str
    """The name of a room on the media plane: project id, dot, room name."""
    ingress_id: str
    """Id for later calls."""
    input_type: InputType
    """The protocol by which an encoder publishes."""
    participant_identity: str
    """Identity with which the encoder joins."""
    url: str
    """URL that the encoder publishes to, its stream key replaced by `REDACTED`."""
    status: IngressStatus
    """The status of an ingress endpoint."""
    created_at: datetime.datetime
    updated_at: datetime.datetime
    stream_key: str = field(metadata=SECRET)
    """Shown only in this response."""
    deleted_at: datetime.datetime | None = None
    """Absent until deleted."""
    error: str | None = None
    """Description of the failure; present while `status` is `error`."""
    participant_name: str | None = None
    """Absent when none was given."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class IngressEndedEvent(Model):
    """An encoder has disconnected or stopped publishing."""

    type: Literal["ingress.ended"] = "ingress.ended"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    participant_identity: str
    """The identity of the encoder's participant."""
    ingress_id: str
    """The id of the ingress endpoint."""
    ingress_status: IngressStatus
    """Its status at the time of the event."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class IngressPage(Model):
    """A page of a list."""

    ingresses: list[Ingress]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class IngressStartedEvent(Model):
    """An encoder has connected and publishes."""

    type: Literal["ingress.started"] = "ingress.started"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    participant_identity: str
    """The identity of the encoder's participant."""
    ingress_id: str
    """The id of the ingress endpoint."""
    ingress_status: IngressStatus
    """Its status at the time of the event."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class LiveRoom(Model):
    """A room in which a participant is connected."""

    id: str
    """The key of a room's record."""
    project_id: str
    """The id of a project: `prj_` and twelve lower-case hex digits."""
    name: str
    """The name of a room, which a project uses once."""
    namespaced_name: str
    """The media plane's name: project id, a dot, then the room name."""
    max_participants: int
    empty_timeout_seconds: int
    status: RoomStatus
    """The status of a room. The only transition is from open to ended."""
    created_at: datetime.datetime
    participant_count: int
    """Connected participants, including hidden ones."""
    publisher_count: int
    """Connected participants that publish a track."""
    recording: bool
    """Whether a recording runs."""
    broadcasting: bool
    """Whether a broadcast runs."""
    ended_at: datetime.datetime | None = None
    """Absent while open."""
    max_duration_seconds: int | None = None
    metadata: Any = None
    started_at: datetime.datetime | None = None
    """Absent until the first participant joins."""
    template_id: str | None = None
    """Null when the project has no default template."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class LiveRoomPage(Model):
    """A page of a list."""

    rooms: list[LiveRoom]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class MeasuredSession(Model):
    """A session with the sum of its samples."""

    id: str
    """The id of a session: one join of one participant."""
    room: str
    """The name of a room, which a project uses once."""
    namespaced_room: str
    """The name of a room on the media plane: project id, dot, room name."""
    participant_identity: str
    """The identity of a participant, unique in its room while the participant is connected. Not `.` or
    `..`, which HTTP clients resolve as steps in a path.
    """
    participant_sid: str
    """The id that the media plane gives to one join of a participant."""
    role: str | None
    """Null if the token had no role."""
    joined_at: datetime.datetime
    duration_seconds: int
    """Measured until `left_at`, or until now for an open session."""
    track_count: int
    """Tracks published during the session."""
    quality: SessionQualitySummary
    """The sum of a session's samples."""
    left_at: datetime.datetime | None = None
    """Absent while connected."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class MeasuredSessionPage(Model):
    """A page of a list."""

    sessions: list[MeasuredSession]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class MutedTrack(Model):
    """A track that was muted or unmuted."""

    track: Track
    """The track after the change."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Participant(Model):
    """A participant as the media plane reports it now."""

    sid: str
    """The media plane's id of this join."""
    identity: str
    """The identity in the participant's token."""
    name: str
    """The display name in the token, unless its client has set another; empty if it has none."""
    state: ParticipantState
    """The progress of the join."""
    kind: ParticipantKind
    """The kind of client."""
    metadata: str
    """The metadata in the token, unless its client has set others."""
    attributes: dict[str, str]
    """Attributes set by the server, such as `svc.role` and `svc.publish.max_kbps`, and attributes set by
    its client, if its role permits.
    """
    is_publisher: bool
    """Whether it publishes at least one track."""
    tracks: list[Track]
    """The published tracks."""
    joined_at: datetime.datetime | None = None
    """The instant of the join; absent if the media plane does not report it."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ParticipantConnectionAbortedEvent(Model):
    """A join failed, or a connection broke without a clean leave."""

    type: Literal["participant.connection_aborted"] = "participant.connection_aborted"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    participant_identity: str
    """The identity, unique in the room while the participant is connected."""
    participant_sid: str
    """The id of the join."""
    role: str | None = None
    """The role at the time of the event; absent if the participant has none."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ParticipantJoinedEvent(Model):
    """A participant has connected."""

    type: Literal["participant.joined"] = "participant.joined"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    participant_identity: str
    """The identity, unique in the room while the participant is connected."""
    participant_sid: str
    """The id of the join."""
    role: str | None = None
    """The role at the time of the event; absent if the participant has none."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ParticipantLeftEvent(Model):
    """A participant has left cleanly."""

    type: Literal["participant.left"] = "participant.left"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    participant_identity: str
    """The identity, unique in the room while the participant is connected."""
    participant_sid: str
    """The id of the join."""
    role: str | None = None
    """The role at the time of the event; absent if the participant has none."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ParticipantPage(Model):
    """A page of a list."""

    participants: list[Participant]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ParticipantPublishLimitClearedEvent(Model):
    """The bitrate has stayed below the limit again."""

    type: Literal["participant.publish_limit_cleared"] = "participant.publish_limit_cleared"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    participant_identity: str
    """The identity, unique in the room while the participant is connected."""
    participant_sid: str
    """The id of the join."""
    publish_kbps: int
    """The measured bitrate, in kilobits a second."""
    publish_max_kbps: int
    """The limit, in kilobits a second."""
    role: str | None = None
    """The role at the time of the event; absent if the participant has none."""
    track_sid: str | None = None
    """The published track; absent unless there is exactly one."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ParticipantPublishLimitExceededEvent(Model):
    """A participant's bitrate has stayed above its role's limit."""

    type: Literal["participant.publish_limit_exceeded"] = "participant.publish_limit_exceeded"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    participant_identity: str
    """The identity, unique in the room while the participant is connected."""
    participant_sid: str
    """The id of the join."""
    publish_kbps: int
    """The measured bitrate, in kilobits a second."""
    publish_max_kbps: int
    """The limit, in kilobits a second."""
    role: str | None = None
    """The role at the time of the event; absent if the participant has none."""
    track_sid: str | None = None
    """The published track; absent unless there is exactly one."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ParticipantRecording(Model):
    """A participant's recording."""

    id: str
    """The key of a recording's or a broadcast's record."""
    project_id: str
    """The id of a project: `prj_` and twelve lower-case hex digits."""
    room: str
    """The name of a room, which a project uses once."""
    namespaced_room: str
    """The name of a room on the media plane: project id, dot, room name."""
    egress_id: str
    """Id for later calls."""
    started_at: datetime.datetime
    created_at: datetime.datetime
    type: RecordingType
    """The part of a room that a recording contains."""
    status: EgressStatus
    """The status of a recording or a broadcast. It only moves forward, and never leaves one of the last
    four.
    """
    filepath: str
    """Path inside the project's recording directory, or the destination."""
    identity: str
    """The recorded participant."""
    destination: str | None = None
    """Destination that was used, if one was named."""
    destination_id: str | None = None
    """The id of a destination: `dst_` and twelve lower-case hex digits."""
    ended_at: datetime.datetime | None = None
    """Absent until the status is final."""
    error: str | None = None
    """Set when the status is `failed`."""
    paused: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ParticipantRecordings(Model):
    """Recordings of a room's participants."""

    recordings: list[ParticipantRecording]
    """One recording per participant, by the time of the join. A participant that was being recorded keeps
    its recording.
    """
    refused: list[UnrecordedParticipant] | None = None
    """Participants whose recording was not started; absent if there are none."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ParticipantRoleChangedEvent(Model):
    """A participant has been given another role."""

    type: Literal["participant.role_changed"] = "participant.role_changed"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    participant_identity: str
    """The identity, unique in the room while the participant is connected."""
    participant_sid: str
    """The id of the join."""
    changed_by_api_key_prefix: str | None = None
    """The prefix of the API key that made the change, or `operator` for the console; absent if a room
    token made it.
    """
    changed_by_identity: str | None = None
    """The participant that made the change; absent unless a room token made it."""
    previous_role: str | None = None
    """The role before the change; absent if the participant had none."""
    role: str | None = None
    """The role at the time of the event; absent if the participant has none."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class PlanFeatures(Model):
    """The features that a plan includes."""

    recording: bool = False
    """Whether rooms can be recorded."""
    streaming: bool = False
    """Whether broadcasts and ingress can be used."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class PlanLimits(Model):
    """The maximum numbers of a plan; null is unlimited."""

    concurrent_rooms: int | None = None
    """Maximum number of open rooms."""
    participant_minutes_per_month: int | None = None
    """Included participant minutes in a calendar month (UTC)."""
    participants_per_room: int | None = None
    """Maximum number of participants in one room."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class PlanStatus(Model):
    """A project's status under its plan."""

    plan_id: str
    display_name: str
    price_ugx: int
    """Monthly price in Ugandan shillings."""
    limits: PlanLimits
    """The maximum numbers of a plan; null is unlimited."""
    features: PlanFeatures
    """The features that a plan includes."""
    quota_state: QuotaState
    """`active`, `suspended` or `exceeded`. If a billing service keeps the wallet, its decision counts;
    while it is unreachable, `/v1/plan` shows the state by the records alone.
    """
    period_start: datetime.date
    """First day of the billing period."""
    participant_minutes_used: float
    active_rooms: int
    """Rooms open now."""
    participant_minutes_remaining: float | None = None
    """Null when the plan has no limit."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ReconnectCounts(Model):
    """Resumes of a session by its client."""

    total: int
    """All, including those without a stated reason."""
    signal: int
    """The WebSocket was lost."""
    publisher: int
    """The connection for publishing failed."""
    subscriber: int
    """The connection for receiving failed."""
    candidate: int
    """The client changed its way to the server."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Recording(Model):
    """A recording."""

    id: str
    """The key of a recording's or a broadcast's record."""
    project_id: str
    """The id of a project: `prj_` and twelve lower-case hex digits."""
    room: str
    """The name of a room, which a project uses once."""
    namespaced_room: str
    """The name of a room on the media plane: project id, dot, room name."""
    egress_id: str
    """Id for later calls."""
    started_at: datetime.datetime
    created_at: datetime.datetime
    type: RecordingType
    """The part of a room that a recording contains."""
    status: EgressStatus
    """The status of a recording or a broadcast. It only moves forward, and never leaves one of the last
    four.
    """
    filepath: str
    """Path inside the project's recording directory, or the destination."""
    destination: str | None = None
    """Destination that was used, if one was named."""
    destination_id: str | None = None
    """The id of a destination: `dst_` and twelve lower-case hex digits."""
    ended_at: datetime.datetime | None = None
    """Absent until the status is final."""
    error: str | None = None
    """Set when the status is `failed`."""
    paused: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RecordingEndedEvent(Model):
    """A recording is final."""

    type: Literal["recording.ended"] = "recording.ended"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    egress_id: str
    """The id of the recording."""
    recording_status: EgressStatus
    """Its status at the time of the event."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RecordingFailedEvent(Model):
    """A recording has failed; sent instead of `recording.ended`."""

    type: Literal["recording.failed"] = "recording.failed"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    egress_id: str
    """The id of the recording."""
    recording_status: EgressStatus
    """Its status at the time of the event."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RecordingLink(Model):
    path: str
    expires_at: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RecordingPage(Model):
    """A page of a list."""

    recordings: list[Recording]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RecordingStartedEvent(Model):
    """A recording has started."""

    type: Literal["recording.started"] = "recording.started"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    egress_id: str
    """The id of the recording."""
    recording_status: EgressStatus
    """Its status at the time of the event."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RecordingUpdatedEvent(Model):
    """The status of a recording has changed, and is not final."""

    type: Literal["recording.updated"] = "recording.updated"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    egress_id: str
    """The id of the recording."""
    recording_status: EgressStatus
    """Its status at the time of the event."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Role(Model):
    """A role as it is stored, served and turned into grants."""

    name: str
    """The name, unique in the template."""
    publish: RolePublish
    """The media that holders may publish, and its quality."""
    subscribe: RoleSubscribe
    """The roles whose media holders receive."""
    permissions: RolePermissions
    """The moderation calls that holders may make."""
    priority: int
    """The priority; 1 is the most important."""
    max_peer_count: int
    """Maximum number of concurrent holders in a room; -1 admits no participant, 0 is unlimited."""
    hidden: bool
    """Whether holders are invisible to other participants."""
    attributes: dict[str, str] | None = None
    """Beyond the contract: attributes that participants who join with the role start with. Shown only if
    there are any.
    """


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RoleChange(Model):
    """One change of a participant's role; exactly one of `changed_by_identity` and
    `changed_by_api_key_prefix` is present.
    """

    id: str
    """The id of a change of a participant's role."""
    room: str
    """The name of a room, which a project uses once."""
    participant_identity: str
    """The identity of a participant, unique in its room while the participant is connected. Not `.` or
    `..`, which HTTP clients resolve as steps in a path.
    """
    participant_sid: str
    """The id that the media plane gives to one join of a participant."""
    role: str
    """The name of a role, unique in its template."""
    created_at: datetime.datetime
    changed_by_api_key_prefix: str | None = None
    """Set if a project API key made the change; `operator` for a change in the console."""
    changed_by_identity: str | None = None
    """Set if a room token made the change."""
    previous_role: str | None = None
    """Absent if the participant had no role."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RoleChangePage(Model):
    """A page of a list."""

    role_changes: list[RoleChange]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RoleChangeResult(Model):
    """Response to a role change."""

    role_change: RoleChange
    """One change of a participant's role; exactly one of `changed_by_identity` and
    `changed_by_api_key_prefix` is present.
    """
    participant: Participant
    """The participant after the change."""
    applies_live: bool
    """Whether the change applies without a new join; always true."""
    note: str
    """Explains what does not change until the participant republishes."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RolePermissions(Model):
    """The moderation calls that a role may make. All default to false."""

    broadcast: bool = False
    """May start and stop broadcasts."""
    change_role: bool = False
    """May change the roles of participants."""
    end_room: bool = False
    """May end the room."""
    mute_others: bool = False
    """May mute tracks of other participants."""
    record: bool = False
    """May start and stop recordings."""
    remove_others: bool = False
    """May remove participants."""
    send_data: bool = False
    """May send data through the server."""
    unmute_others: bool = False
    """May unmute tracks of other participants."""
    update_own_metadata: bool = False
    """Beyond the contract: may change its own name, metadata and attributes by the protocol of clients.
    Shown only if it is true.
    """


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RolePublish(Model):
    """The media and data that a role may publish, with all defaults filled in; also the PublishProfile of
    a token.
    """

    allowed: list[PublishKind]
    """The kinds that may be published."""
    max_kbps: int | None
    """Limit of all published media, in kilobits a second; null is unlimited."""
    audio: AudioProfile
    """The encoding of microphone audio."""
    video: VideoProfile
    """The encoding of camera video."""
    screen: VideoProfile
    """The encoding of a shared screen."""
    simulcast: bool
    """Whether video is sent in several qualities at once."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RoleSubscribe(Model):
    """The media that a role receives."""

    to_roles: list[str] | None
    """Roles whose media is received; null is every role, an empty list none."""
    max_kbps: int | None
    """Limit of all received media, in kilobits a second; null is unlimited."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Room(Model):
    """A room."""

    id: str
    """The key of a room's record."""
    project_id: str
    """The id of a project: `prj_` and twelve lower-case hex digits."""
    name: str
    """The name of a room, which a project uses once."""
    namespaced_name: str
    """The media plane's name: project id, a dot, then the room name."""
    max_participants: int
    empty_timeout_seconds: int
    status: RoomStatus
    """The status of a room. The only transition is from open to ended."""
    created_at: datetime.datetime
    ended_at: datetime.datetime | None = None
    """Absent while open."""
    max_duration_seconds: int | None = None
    metadata: Any = None
    started_at: datetime.datetime | None = None
    """Absent until the first participant joins."""
    template_id: str | None = None
    """Null when the project has no default template."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RoomCode(Model):
    """A room code."""

    id: str
    """The id of a room code."""
    project_id: str
    """The id of a project: `prj_` and twelve lower-case hex digits."""
    room: str
    """The room that its tokens are for."""
    role: str
    """The role of its tokens."""
    code: str = field(metadata=SECRET)
    """Complete only in the response that creates it, otherwise masked: `abcd-****-****`."""
    identity: str | None
    """If set, tokens are always for this identity."""
    expires_at: datetime.datetime
    uses: int
    """Number of exchanges so far."""
    disabled: bool
    created_at: datetime.datetime
    updated_at: datetime.datetime
    max_uses: int | None = None
    """Null: unlimited."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RoomCodePage(Model):
    """A page of a list."""

    codes: list[RoomCode]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RoomFinishedEvent(Model):
    """The room has ended, and all its sessions are closed."""

    type: Literal["room.finished"] = "room.finished"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RoomPage(Model):
    """A page of a list."""

    rooms: list[Room]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RoomStartedEvent(Model):
    """The first participant has joined."""

    type: Literal["room.started"] = "room.started"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class S3Destination(Model):
    """S3, or a service with its protocol. Credentials that are omitted in a change, or sent as `***`, keep
    their stored values.
    """

    type: Literal["s3"] = "s3"
    bucket: str
    """The bucket that files are written to."""
    access_key: str | None = None
    """The access key's id."""
    endpoint: str | None = None
    """The service's http(s) URL, if it is not Amazon's."""
    force_path_style: bool | None = None
    """The bucket is part of the path and not of the host name."""
    prefix: str | None = None
    """A prefix of each file's path."""
    region: str | None = None
    """The region of the bucket."""
    secret: str | None = field(default=None, metadata=SECRET)
    """The access key's secret; reads back as `***`."""
    session_token: str | None = field(default=None, metadata=SECRET)
    """Session token of temporary credentials; reads back as `***`. An empty text removes it."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Session(Model):
    """A session, as lists show it."""

    id: str
    """The id of a session: one join of one participant."""
    room: str
    """The name of a room, which a project uses once."""
    namespaced_room: str
    """The name of a room on the media plane: project id, dot, room name."""
    participant_identity: str
    """The identity of a participant, unique in its room while the participant is connected. Not `.` or
    `..`, which HTTP clients resolve as steps in a path.
    """
    participant_sid: str
    """The id that the media plane gives to one join of a participant."""
    role: str | None
    """Null if the token had no role."""
    joined_at: datetime.datetime
    duration_seconds: int
    """Measured until `left_at`, or until now for an open session."""
    track_count: int
    """Tracks published during the session."""
    left_at: datetime.datetime | None = None
    """Absent while connected."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SessionDetail(Model):
    """A session with its tracks."""

    id: str
    """The id of a session: one join of one participant."""
    room: str
    """The name of a room, which a project uses once."""
    namespaced_room: str
    """The name of a room on the media plane: project id, dot, room name."""
    participant_identity: str
    """The identity of a participant, unique in its room while the participant is connected. Not `.` or
    `..`, which HTTP clients resolve as steps in a path.
    """
    participant_sid: str
    """The id that the media plane gives to one join of a participant."""
    role: str | None
    """Null if the token had no role."""
    joined_at: datetime.datetime
    duration_seconds: int
    """Measured until `left_at`, or until now for an open session."""
    track_count: int
    """Tracks published during the session."""
    tracks: list[SessionTrack]
    """In order of start."""
    left_at: datetime.datetime | None = None
    """Absent while connected."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SessionPage(Model):
    """A page of a list."""

    sessions: list[Session]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SessionQuality(Model):
    """A session's quality."""

    session_id: str
    """The id of a session: one join of one participant."""
    summary: SessionQualitySummary | None = None
    """Up to a minute old while the session is open. Absent if nothing was measured: with LiveKit as the
    media plane, for participants of the sandbox, and in a session's first seconds.
    """


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SessionQualitySample(Model):
    """Measurements of a session in ten seconds."""

    at: datetime.datetime
    """End of the interval."""
    seconds: float
    """Length of the interval."""
    interruptions: int
    """Times without a packet from the client for 10 s."""
    reconnects: int
    """Resumes of the session by its client."""
    sent: DirectionQualitySample
    """Media from the client."""
    received: DirectionQualitySample
    """Media to the client."""
    connection: MediaConnection | None = None
    """`udp`, `tcp` or `turn`."""
    estimate_kbps: int | None = None
    """Estimated bandwidth to the client."""
    round_trip_ms: int | None = None
    """Mean round-trip time."""
    score: float | None = None
    """Mean estimated opinion score, 1 to 4.5."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SessionQualitySamplePage(Model):
    """A page of a list."""

    samples: list[SessionQualitySample]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SessionQualitySummary(Model):
    """The sum of a session's samples."""

    measured_seconds: float
    """Measured time."""
    interruptions: int
    """Times without a packet from the client for 10 s."""
    reconnects: ReconnectCounts
    """Resumes of a session by its client."""
    sent: DirectionQuality
    """Media from the client."""
    received: DirectionQuality
    """Media to the client."""
    client: ClientProgram | None = None
    """The client's program, as it states it. Absent if it states none."""
    connection: MediaConnection | None = None
    """`udp`, `tcp` or `turn` (this server's TURN server); absent for RTMP encoders."""
    failure: str | None = None
    """Why the media failed: `negotiation`, `answer_timeout`, `silent`, `closed`, `capacity`,
    `too_many_commands` or `channels`. Absent if it did not.
    """
    lowest_score: float | None = None
    """Lowest score of a sample."""
    max_round_trip_ms: int | None = None
    """Highest round-trip time of a sample."""
    round_trip_ms: int | None = None
    """Mean round-trip time."""
    score: float | None = None
    """Mean estimated opinion score, 1 to 4.5, from loss and delay."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class SessionTrack(Model):
    """A track published during a session."""

    track_sid: str
    """The id that the media plane gives to one published track."""
    kind: TrackKind
    """The media type of a track."""
    source: TrackSource
    """The source of a track."""
    started_at: datetime.datetime
    ended_at: datetime.datetime | None = None
    """Absent while published."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RtmpDestination(Model):
    """Target URLs for broadcasts, without stream keys."""

    urls: list[str]
    """The URLs, each stream key replaced by `REDACTED`."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Template(Model):
    """A template."""

    id: str
    """The id of a template: `tpl_` and twelve lower-case hex digits."""
    project_id: str
    """The id of a project: `prj_` and twelve lower-case hex digits."""
    name: str
    """The name of a template, unique in its project."""
    is_default: bool
    """Used by rooms created without a template; cannot be deleted."""
    settings: TemplateSettings
    """A template's settings."""
    roles: dict[str, Role]
    created_at: datetime.datetime
    updated_at: datetime.datetime


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class TemplatePage(Model):
    """A page of a list."""

    templates: list[Template]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class TemplateSettings(Model):
    """A template's settings."""

    region: Region
    """A media region. Stored and validated; it does not change where traffic goes today."""
    auto_record: dict[str, Any] | None = None
    """A recording that starts by itself when participants join a room of the template."""
    max_duration_seconds: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class TemplateSettingsDetail(Model):
    """A template's settings, and the values they can have."""

    region: Region
    """A media region. Stored and validated; it does not change where traffic goes today."""
    allowed_regions: list[Region]
    region_enforced: bool
    """False while a single media region runs."""
    region_note: str
    auto_record: dict[str, Any] | None = None
    """A recording that starts by itself when participants join a room of the template."""
    max_duration_seconds: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Token(Model):
    """A room token."""

    token: str = field(metadata=SECRET)
    """The token, a JWT, safe for a browser."""
    url: str
    """WebSocket URL that the client connects to."""
    expires_at: datetime.datetime
    publish_profile: RolePublish | None = None
    """The media and data that a role may publish, with all defaults filled in; also the PublishProfile of
    a token.
    """
    role: str | None = None
    """Absent when no role was requested."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Track(Model):
    """A published track."""

    sid: str
    """The media plane's id of the track."""
    kind: TrackKind
    """Audio, video or data."""
    source: TrackSource
    """The device or screen that the track captures."""
    muted: bool
    """Whether the publisher or a moderator has muted it."""
    height: int | None = None
    """Height in pixels; absent for audio."""
    mime_type: str | None = None
    """The MIME type of the codec."""
    name: str | None = None
    """The name that the publisher gave it, if any."""
    simulcast: bool | None = None
    """Whether video is sent in several qualities; absent for audio."""
    width: int | None = None
    """Width in pixels; absent for audio."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class TrackPublishedEvent(Model):
    """A participant has started to publish a track."""

    type: Literal["track.published"] = "track.published"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    participant_identity: str
    """The identity, unique in the room while the participant is connected."""
    participant_sid: str
    """The id of the join."""
    track_sid: str
    """The media plane's id of the track."""
    track_kind: TrackKind
    """Audio, video or data."""
    track_source: TrackSource
    """The device or screen that the track captures."""
    track_muted: bool
    """Whether the track was muted at the time of the event."""
    role: str | None = None
    """The role at the time of the event; absent if the participant has none."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class TrackUnpublishedEvent(Model):
    """A track has stopped."""

    type: Literal["track.unpublished"] = "track.unpublished"
    project_id: str
    """The project that owns the room."""
    room: str
    """The name of the room, without the project."""
    occurred_at: datetime.datetime
    """The instant by the media plane's clock if it reports one, else by the server's."""
    participant_identity: str
    """The identity, unique in the room while the participant is connected."""
    participant_sid: str
    """The id of the join."""
    track_sid: str
    """The media plane's id of the track."""
    track_kind: TrackKind
    """Audio, video or data."""
    track_source: TrackSource
    """The device or screen that the track captures."""
    track_muted: bool
    """Whether the track was muted at the time of the event."""
    role: str | None = None
    """The role at the time of the event; absent if the participant has none."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class UnrecordedParticipant(Model):
    """A participant whose recording was not started."""

    identity: str
    """The identity of a participant, unique in its room while the participant is connected. Not `.` or
    `..`, which HTTP clients resolve as steps in a path.
    """
    reason: str
    """The code of the error that a request for this recording alone would get."""
    message: str
    """The reason in words."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Usage(Model):
    """A project's usage."""

    days: list[UsageDay]
    """One for each day in range."""
    total_participant_minutes: float
    plan: PlanStatus
    """A project's status under its plan."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class UsageDay(Model):
    """Usage on one day."""

    date: datetime.date
    participant_minutes: float
    """A session over midnight counts on each day; an open session counts until now."""
    sessions: int
    """Sessions that started on that day."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class VideoProfile(Model):
    """The encoding of video."""

    max_kbps: int
    """Bitrate in kilobits a second."""
    codec: VideoCodec
    """The video codec that publishers prefer."""
    frame_rate: int
    """Frame rate in frames a second."""
    width: int
    """Width in pixels."""
    height: int
    """Height in pixels."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WebhookDelivery(Model):
    """One event's delivery to one webhook endpoint."""

    id: str
    """The id of a webhook delivery: one event for one endpoint."""
    endpoint_id: str
    """The id of a webhook endpoint."""
    endpoint_url: str
    event_type: str
    payload: dict[str, Any]
    """The exact request body, byte for byte as signed."""
    status: DeliveryStatus
    """The status of a delivery. A retry makes a failed delivery pending again."""
    attempts: int
    """Number of delivery attempts."""
    created_at: datetime.datetime
    last_error: str
    """Transport or status error of the latest attempt."""
    response_status: int | None
    """Null if the request never completed."""
    delivered_at: datetime.datetime | None = None
    next_attempt_at: datetime.datetime | None = None
    """Present only while pending."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WebhookDeliveryPage(Model):
    """A page of a list."""

    webhook_deliveries: list[WebhookDelivery]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WebhookEndpoint(Model):
    """A webhook endpoint."""

    id: str
    """The id of a webhook endpoint."""
    url: str
    active: bool
    created_at: datetime.datetime
    description: str | None = None
    disabled_at: datetime.datetime | None = None
    """An instant in UTC: RFC 3339 with milliseconds and `Z`."""
    disabled_reason: str | None = None
    events: list[str] | None = None
    previous_secret_expires_at: datetime.datetime | None = None
    """An instant in UTC: RFC 3339 with milliseconds and `Z`."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WebhookEndpointCreated(Model):
    """A webhook endpoint, as returned when it is created."""

    id: str
    """The id of a webhook endpoint."""
    url: str
    secret: str = field(metadata=SECRET)
    """The signing secret, shown only in this response."""
    active: bool
    created_at: datetime.datetime


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WebhookEndpointDisabledEvent(Model):
    """Sent once to an endpoint that the server has disabled, because no delivery was accepted for days. It
    is about no room.
    """

    type: Literal["webhook.endpoint_disabled"] = "webhook.endpoint_disabled"
    occurred_at: datetime.datetime
    """The instant by the server's clock."""
    project_id: str
    """The project that owns the webhook endpoint."""
    endpoint_id: str
    """The webhook endpoint's id."""
    reason: str
    """Since when attempts have failed, and the last error."""
    room: str | None = None
    """The name of a room, which a project uses once."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WebhookEndpointPage(Model):
    """A page of a list."""

    webhook_endpoints: list[WebhookEndpoint]
    limit: int
    offset: int
    has_more: bool


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WebhookSecretRotated(Model):
    """A webhook endpoint's new secret."""

    id: str
    """The id of a webhook endpoint."""
    secret: str = field(metadata=SECRET)
    """The new signing secret, shown only in this response."""
    previous_secret_expires_at: datetime.datetime | None = None
    """Time until which deliveries are also signed with the previous secret; absent without an overlap."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class WebhookTestEvent(Model):
    """Sent by the console to test an endpoint. It is about no room."""

    type: Literal["webhook.test"] = "webhook.test"
    occurred_at: datetime.datetime
    """The instant by the server's clock."""
    project_id: str
    """The project that owns the webhook endpoint."""
    room: str | None = None
    """The name of a room, which a project uses once."""


class AudioInput(TypedDict):
    """AudioProfile as a caller sends it."""

    codec: NotRequired[AudioCodec]
    """The audio codec; default opus."""
    max_kbps: NotRequired[int]
    """Bitrate in kilobits a second; default 32."""


class AzureDestinationInput(TypedDict):
    """Azure Blob Storage."""

    type: Literal["azure"]
    container: str
    """The container that files are written to."""
    account_name: str
    """The account's name."""
    account_key: NotRequired[str]
    """The account's key; reads back as `***`."""
    prefix: NotRequired[str]
    """A prefix of each file's path."""


class GcpDestinationInput(TypedDict):
    """Google Cloud Storage."""

    type: Literal["gcp"]
    bucket: str
    """The bucket that files are written to."""
    credentials: NotRequired[str]
    """A service account's key, as the JSON text that Google gives; reads back as `***`."""
    prefix: NotRequired[str]
    """A prefix of each file's path."""


class NewAzureDestination(TypedDict):
    """Azure Blob Storage."""

    type: Literal["azure"]
    """Always `azure`."""
    container: str
    """The container that files are written to."""
    account_name: str
    """The account's name."""
    account_key: str
    """The account's key."""
    prefix: NotRequired[str]
    """Prefix for each file's path."""


class NewGcpDestination(TypedDict):
    """Google Cloud Storage."""

    type: Literal["gcp"]
    """Always `gcp`."""
    bucket: str
    """The bucket that files are written to."""
    credentials: str
    """A service account's key, as the JSON text from Google."""
    prefix: NotRequired[str]
    """Prefix for each file's path."""


class NewS3Destination(TypedDict):
    """Amazon S3 or a compatible service."""

    type: Literal["s3"]
    """Always `s3`."""
    bucket: str
    """The bucket that files are written to."""
    access_key: str
    """The access key's id."""
    secret: str
    """The access key's secret."""
    endpoint: NotRequired[str]
    """The service's HTTP(S) URL, if it is not Amazon's."""
    force_path_style: NotRequired[bool]
    """Whether the bucket is in the URL's path, not in its host name."""
    prefix: NotRequired[str]
    """Prefix for each file's path."""
    region: NotRequired[str]
    """The bucket's region."""
    session_token: NotRequired[str]
    """Session token for temporary credentials. Empty means none."""


class Permissions(TypedDict):
    """Plain grants; each defaults to true."""

    can_publish: NotRequired[bool | None]
    can_publish_data: NotRequired[bool | None]
    can_subscribe: NotRequired[bool | None]


class RoleInput(TypedDict):
    """A role as a caller sends it."""

    attributes: NotRequired[Mapping[str, str]]
    """Beyond the contract: attributes that participants who join with the role start with; default none."""
    hidden: NotRequired[bool]
    """Whether holders are invisible to other participants; default false."""
    max_peer_count: NotRequired[int]
    """Maximum number of concurrent holders in a room; default 0, unlimited."""
    name: NotRequired[str]
    """If sent, must be the name of the role in the template."""
    permissions: NotRequired[RolePermissionsInput | RolePermissions]
    """The moderation calls that holders may make; default none."""
    priority: NotRequired[int]
    """Priority; default 3."""
    publish: NotRequired[RolePublishInput | RolePublish]
    """The media that holders may publish; default everything."""
    subscribe: NotRequired[RoleSubscribeInput | RoleSubscribe]
    """The roles whose media holders receive; default all."""


class RolePermissionsInput(TypedDict):
    """The moderation calls that a role may make. All default to false."""

    broadcast: NotRequired[bool]
    """May start and stop broadcasts."""
    change_role: NotRequired[bool]
    """May change the roles of participants."""
    end_room: NotRequired[bool]
    """May end the room."""
    mute_others: NotRequired[bool]
    """May mute tracks of other participants."""
    record: NotRequired[bool]
    """May start and stop recordings."""
    remove_others: NotRequired[bool]
    """May remove participants."""
    send_data: NotRequired[bool]
    """May send data through the server."""
    unmute_others: NotRequired[bool]
    """May unmute tracks of other participants."""
    update_own_metadata: NotRequired[bool]
    """Beyond the contract: may change its own name, metadata and attributes by the protocol of clients.
    Shown only if it is true.
    """


class RolePublishInput(TypedDict):
    """RolePublish as a caller sends it."""

    allowed: NotRequired[Sequence[PublishKind]]
    """Default all four kinds."""
    audio: NotRequired[AudioInput | AudioProfile]
    """The encoding of microphone audio."""
    max_kbps: NotRequired[int | None]
    """Limit in kilobits a second; default null, unlimited."""
    screen: NotRequired[VideoInput | VideoProfile]
    """The encoding of a shared screen."""
    simulcast: NotRequired[bool]
    """Whether video is sent in several qualities at once; default true."""
    video: NotRequired[VideoInput | VideoProfile]
    """The encoding of camera video."""


class RoleSubscribeInput(TypedDict):
    """RoleSubscribe as a caller sends it."""

    max_kbps: NotRequired[int | None]
    """Limit in kilobits a second; default null, unlimited."""
    to_roles: NotRequired[Sequence[str] | None]
    """Roles whose media is received; default null, every role."""


class RtmpDestinationInput(TypedDict):
    """Target URLs for broadcasts. Each URL is returned as `rtmp://host/app/REDACTED`."""

    urls: Sequence[str]
    """1 to 8 `rtmp://` or `rtmps://` URLs."""


class S3DestinationInput(TypedDict):
    """S3, or a service with its protocol. Credentials that are omitted in a change, or sent as `***`, keep
    their stored values.
    """

    type: Literal["s3"]
    bucket: str
    """The bucket that files are written to."""
    access_key: NotRequired[str]
    """The access key's id."""
    endpoint: NotRequired[str]
    """The service's http(s) URL, if it is not Amazon's."""
    force_path_style: NotRequired[bool]
    """The bucket is part of the path and not of the host name."""
    prefix: NotRequired[str]
    """A prefix of each file's path."""
    region: NotRequired[str]
    """The region of the bucket."""
    secret: NotRequired[str]
    """The access key's secret; reads back as `***`."""
    session_token: NotRequired[str]
    """Session token of temporary credentials; reads back as `***`. An empty text removes it."""


class TemplateSettingsInput(TypedDict):
    """Settings of a template to create or change."""

    auto_record: NotRequired[Mapping[str, Any] | None]
    """A recording that starts by itself when participants join a room of the template."""
    max_duration_seconds: NotRequired[int]
    region: NotRequired[Region]
    """Default `auto`; an update without it leaves the region unchanged."""


class VideoInput(TypedDict):
    """VideoProfile as a caller sends it."""

    codec: NotRequired[VideoCodec]
    """The video codec; default vp8."""
    frame_rate: NotRequired[int]
    """Default 25 for the camera, 10 for the screen."""
    height: NotRequired[int]
    """Default 720 for the camera, 1080 for the screen."""
    max_kbps: NotRequired[int]
    """Default 1200 for the camera, 2500 for the screen."""
    width: NotRequired[int]
    """Default 1280 for the camera, 1920 for the screen."""


Event: TypeAlias = (
    RoomStartedEvent
    | RoomFinishedEvent
    | ParticipantJoinedEvent
    | ParticipantLeftEvent
    | ParticipantConnectionAbortedEvent
    | ParticipantRoleChangedEvent
    | ParticipantPublishLimitExceededEvent
    | ParticipantPublishLimitClearedEvent
    | TrackPublishedEvent
    | TrackUnpublishedEvent
    | RecordingStartedEvent
    | RecordingUpdatedEvent
    | RecordingEndedEvent
    | RecordingFailedEvent
    | BroadcastStartedEvent
    | BroadcastUpdatedEvent
    | BroadcastEndedEvent
    | BroadcastFailedEvent
    | IngressStartedEvent
    | IngressEndedEvent
    | WebhookEndpointDisabledEvent
    | WebhookTestEvent
)
"""What a webhook reports: one of the 20 events, or the event that tests an endpoint."""
