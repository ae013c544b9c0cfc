"""A method for each operation of the API.

Made by `sdk/generate` from the description of the API. Not edited by hand.
"""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

from .._sender import AsyncExtension, AsyncSender, Extension, Sender
from .models import *


class Calls(Sender):
    """The calls of `Conclave`.

    Each takes `timeout`, in seconds, in place of the client's. `idempotency_key` takes the place of the key
    that is made for each call: a repeated key returns the first response again, for 24 hours.
    """

    def list_broadcasts(
        self,
        *,
        room: str | None = None,
        status: EgressStatus | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> BroadcastPage:
        """List the project's broadcasts, newest first.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of a recording or a broadcast. It only moves forward, and never leaves one of
                the last four.
        """
        return self._send(
            "list_broadcasts",
            [],
            query={"room": room, "status": status, "after": after, "before": before, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    def all_broadcasts(
        self,
        *,
        room: str | None = None,
        status: EgressStatus | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Broadcast]:
        """List the project's broadcasts, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of a recording or a broadcast. It only moves forward, and never leaves one of
                the last four.
        """
        return self._all(
            "list_broadcasts",
            "broadcasts",
            [],
            query={"room": room, "status": status, "after": after, "before": before, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    def get_broadcast(
        self,
        egress_id: str,
        *,
        timeout: float | None = None,
    ) -> Broadcast:
        """Read a broadcast; while it runs, with its current status from the media plane."""
        return self._send("get_broadcast", [egress_id], timeout=timeout)

    def stop_broadcast(
        self,
        egress_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Broadcast:
        """Stop a broadcast."""
        return self._send("stop_broadcast", [egress_id], idempotency_key=idempotency_key, timeout=timeout)

    def disable_code(
        self,
        code: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Disable a room code; tokens from earlier exchanges stay valid."""
        self._send("disable_code", [code], timeout=timeout)

    def exchange_code(
        self,
        code: str,
        *,
        identity: str | None = None,
        name: str | None = None,
        timeout: float | None = None,
    ) -> Token:
        """Exchange a room code for a room token.

        Args:
            identity: Must not be connected to the room, nor have a role there. Ignored if the code is
                locked to an identity. Default: `guest-` and eight random characters.
            name: The display name of the participant: 1 to 256 bytes of text without control characters and
                marks of direction.
        """
        return self._send("exchange_code", [code], body={"identity": identity, "name": name}, timeout=timeout)

    def list_ingresses(
        self,
        *,
        room: str | None = None,
        status: IngressStatus | None = None,
        input_type: InputType | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> IngressPage:
        """List endpoints, newest first, including deleted ones.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of an ingress endpoint.
            input_type: The protocol by which an encoder publishes.
        """
        return self._send(
            "list_ingresses",
            [],
            query={"room": room, "status": status, "input_type": input_type, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    def all_ingresses(
        self,
        *,
        room: str | None = None,
        status: IngressStatus | None = None,
        input_type: InputType | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Ingress]:
        """List endpoints, newest first, including deleted ones.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of an ingress endpoint.
            input_type: The protocol by which an encoder publishes.
        """
        return self._all(
            "list_ingresses",
            "ingresses",
            [],
            query={"room": room, "status": status, "input_type": input_type, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    def delete_ingress(
        self,
        ingress_id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete an endpoint; its stream key is invalid at once."""
        self._send("delete_ingress", [ingress_id], timeout=timeout)

    def get_ingress(
        self,
        ingress_id: str,
        *,
        timeout: float | None = None,
    ) -> Ingress:
        """Read an endpoint, with its current status from the media plane."""
        return self._send("get_ingress", [ingress_id], timeout=timeout)

    def get_plan(
        self,
        *,
        timeout: float | None = None,
    ) -> PlanStatus:
        """Read the project's status under its plan."""
        return self._send("get_plan", [], timeout=timeout)

    def list_recordings(
        self,
        *,
        room: str | None = None,
        status: EgressStatus | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> RecordingPage:
        """List the project's recordings, newest first.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of a recording or a broadcast. It only moves forward, and never leaves one of
                the last four.
        """
        return self._send(
            "list_recordings",
            [],
            query={"room": room, "status": status, "after": after, "before": before, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    def all_recordings(
        self,
        *,
        room: str | None = None,
        status: EgressStatus | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Recording]:
        """List the project's recordings, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of a recording or a broadcast. It only moves forward, and never leaves one of
                the last four.
        """
        return self._all(
            "list_recordings",
            "recordings",
            [],
            query={"room": room, "status": status, "after": after, "before": before, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    def get_recording(
        self,
        egress_id: str,
        *,
        timeout: float | None = None,
    ) -> Recording:
        """Read a recording; while it runs, with its current status from the media plane."""
        return self._send("get_recording", [egress_id], timeout=timeout)

    def stop_recording(
        self,
        egress_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Recording:
        """Stop a recording; its file is complete shortly after."""
        return self._send("stop_recording", [egress_id], idempotency_key=idempotency_key, timeout=timeout)

    def list_rooms(
        self,
        *,
        status: RoomStatus | None = None,
        name_prefix: str | None = None,
        created_after: datetime.datetime | None = None,
        created_before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> RoomPage:
        """List rooms, newest first, including ended ones.

        Args:
            status: The status of a room. The only transition is from open to ended.
            name_prefix: The start of a room's name.
        """
        return self._send(
            "list_rooms",
            [],
            query={
                "status": status,
                "name_prefix": name_prefix,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def all_rooms(
        self,
        *,
        status: RoomStatus | None = None,
        name_prefix: str | None = None,
        created_after: datetime.datetime | None = None,
        created_before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Room]:
        """List rooms, newest first, including ended ones.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            status: The status of a room. The only transition is from open to ended.
            name_prefix: The start of a room's name.
        """
        return self._all(
            "list_rooms",
            "rooms",
            [],
            query={
                "status": status,
                "name_prefix": name_prefix,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def create_room(
        self,
        *,
        name: str,
        empty_timeout_seconds: int | None = None,
        max_duration_seconds: int | None = None,
        max_participants: int | None = None,
        metadata: Any | None = None,
        template_id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Room:
        """Create a room.

        Args:
            name: Never used before in the project.
            empty_timeout_seconds: Time in seconds that the room stays open without participants; default
                300.
            max_participants: Maximum number of participants; default 0, the plan's limit.
            metadata: Any JSON, returned unchanged.
            template_id: The project's default template when absent.
        """
        return self._send(
            "create_room",
            [],
            body={
                "name": name,
                "empty_timeout_seconds": empty_timeout_seconds,
                "max_duration_seconds": max_duration_seconds,
                "max_participants": max_participants,
                "metadata": metadata,
                "template_id": template_id,
            },
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def end_room(
        self,
        room: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """End a room and disconnect its participants."""
        self._send("end_room", [room], timeout=timeout)

    def get_room(
        self,
        room: str,
        *,
        timeout: float | None = None,
    ) -> Room:
        """Read a room's record."""
        return self._send("get_room", [room], timeout=timeout)

    def start_broadcast(
        self,
        room: str,
        *,
        audio_only: bool | None = None,
        destination: str | None = None,
        layout: Layout | None = None,
        urls: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Broadcast:
        """Start a broadcast.

        Args:
            audio_only: Whether to send audio without video; default false.
            destination: An RTMP destination of the room's template. Mutually exclusive with `urls`.
            layout: Arrangement of the participants; default grid.
            urls: 1 to 8 `rtmp://` or `rtmps://` URLs. Required without `destination`; mutually exclusive
                with it.
        """
        return self._send(
            "start_broadcast",
            [room],
            body={"audio_only": audio_only, "destination": destination, "layout": layout, "urls": urls},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def list_codes(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> RoomCodePage:
        """List a room's codes, newest first, including unusable ones."""
        return self._send("list_codes", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_codes(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[RoomCode]:
        """List a room's codes, newest first, including unusable ones.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all("list_codes", "codes", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    def create_code(
        self,
        room: str,
        *,
        role: str,
        expires_at: datetime.datetime | None = None,
        identity: str | None = None,
        max_uses: int | None = None,
        ttl_seconds: int | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> RoomCode:
        """Create a room code; the complete code is shown only in this response.

        Args:
            role: A role of the room's template, which the tokens get.
            expires_at: 60 seconds to 30 days from now. Mutually exclusive with `ttl_seconds`.
            identity: Locks the code to one identity.
            max_uses: Maximum number of exchanges; null or omitted: unlimited.
            ttl_seconds: Default 86400. Mutually exclusive with `expires_at`.
        """
        return self._send(
            "create_code",
            [room],
            body={
                "role": role,
                "expires_at": expires_at,
                "identity": identity,
                "max_uses": max_uses,
                "ttl_seconds": ttl_seconds,
            },
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def create_ingress(
        self,
        room: str,
        *,
        input_type: InputType,
        participant_identity: str,
        enable_transcoding: bool | None = None,
        participant_name: str | None = None,
        timeout: float | None = None,
    ) -> IngressCreated:
        """Create an endpoint for an encoder; its stream key is shown only in this response.

        Args:
            input_type: Protocol that the encoder publishes with.
            participant_identity: Identity with which the encoder joins.
            enable_transcoding: Null or omitted: the media plane's default for the input type.
            participant_name: Display name with which the encoder joins.
        """
        return self._send(
            "create_ingress",
            [room],
            body={
                "input_type": input_type,
                "participant_identity": participant_identity,
                "enable_transcoding": enable_transcoding,
                "participant_name": participant_name,
            },
            timeout=timeout,
        )

    def list_participants(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> ParticipantPage:
        """List a room's participants."""
        return self._send("list_participants", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_participants(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Participant]:
        """List a room's participants.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all(
            "list_participants", "participants", [room], query={"limit": limit, "offset": offset}, timeout=timeout
        )

    def remove_participant(
        self,
        room: str,
        identity: str,
        *,
        revoke: bool | None = None,
        timeout: float | None = None,
    ) -> None:
        """Disconnect a participant; its token stays valid, unless `revoke` is true."""
        self._send("remove_participant", [room, identity], query={"revoke": revoke}, timeout=timeout)

    def get_participant(
        self,
        room: str,
        identity: str,
        *,
        timeout: float | None = None,
    ) -> Participant:
        """Read one participant."""
        return self._send("get_participant", [room, identity], timeout=timeout)

    def mute_track(
        self,
        room: str,
        identity: str,
        *,
        track_sid: str,
        muted: bool,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> MutedTrack:
        """Mute or unmute a participant's track.

        Args:
            track_sid: A track that the participant publishes.
            muted: true mutes, false unmutes.
        """
        return self._send(
            "mute_track",
            [room, identity],
            body={"track_sid": track_sid, "muted": muted},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def change_role(
        self,
        room: str,
        identity: str,
        *,
        role: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> RoleChangeResult:
        """Change a connected participant's role.

        Args:
            role: A role in the room's template.
        """
        return self._send(
            "change_role", [room, identity], body={"role": role}, idempotency_key=idempotency_key, timeout=timeout
        )

    def list_room_recordings(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> RecordingPage:
        """List a room's recordings, newest first."""
        return self._send("list_room_recordings", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_room_recordings(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Recording]:
        """List a room's recordings, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all(
            "list_room_recordings", "recordings", [room], query={"limit": limit, "offset": offset}, timeout=timeout
        )

    def start_recording(
        self,
        room: str,
        *,
        type: RecordingType,
        audio_only: bool | None = None,
        destination: str | None = None,
        filepath: str | None = None,
        identity: str | None = None,
        layout: Layout | None = None,
        track_id: str | None = None,
        video_only: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Recording:
        """Start a recording.

        Args:
            type: The part of a room that a recording contains.
            audio_only: Record audio only. Only for `room_composite`; mutually exclusive with `video_only`.
            destination: A recording destination of the room's template. Without one, the file is written to
                the project's local directory.
            filepath: A relative path inside the project's recording directory, or the destination. Default
                `{room}-{UTC time}.mp4`, or `.ogg` for audio only, including an audio track.
            identity: The participant. Only for `participant`, where it is required.
            layout: Default speaker. Only for `room_composite`.
            track_id: The track. Only for `track`, where it is required.
            video_only: Record video only. Only for `room_composite`; mutually exclusive with `audio_only`.
        """
        return self._send(
            "start_recording",
            [room],
            body={
                "type": type,
                "audio_only": audio_only,
                "destination": destination,
                "filepath": filepath,
                "identity": identity,
                "layout": layout,
                "track_id": track_id,
                "video_only": video_only,
            },
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def list_role_changes(
        self,
        room: str,
        *,
        identity: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> RoleChangePage:
        """List a room's role changes, newest first.

        Args:
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
        """
        return self._send(
            "list_role_changes", [room], query={"identity": identity, "limit": limit, "offset": offset}, timeout=timeout
        )

    def all_role_changes(
        self,
        room: str,
        *,
        identity: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[RoleChange]:
        """List a room's role changes, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
        """
        return self._all(
            "list_role_changes",
            "role_changes",
            [room],
            query={"identity": identity, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    def send_data(
        self,
        room: str,
        *,
        data: bytes | str,
        destination_identities: Sequence[str] | None = None,
        kind: DataKind | None = None,
        topic: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> DataSent:
        """Send data to all or some of a room's participants.

        Args:
            data: Message bytes in standard base64.
            destination_identities: Receivers; absent or empty means all participants.
            kind: Delivery mode; default reliable.
            topic: Topic that clients can filter by.
        """
        return self._send(
            "send_data",
            [room],
            body={"data": data, "destination_identities": destination_identities, "kind": kind, "topic": topic},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def list_room_sessions(
        self,
        room: str,
        *,
        identity: str | None = None,
        role: str | None = None,
        active: bool | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> SessionPage:
        """List a room's sessions, newest first.

        Args:
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
            role: The name of a role, unique in its template.
        """
        return self._send(
            "list_room_sessions",
            [room],
            query={
                "identity": identity,
                "role": role,
                "active": active,
                "after": after,
                "before": before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def all_room_sessions(
        self,
        room: str,
        *,
        identity: str | None = None,
        role: str | None = None,
        active: bool | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Session]:
        """List a room's sessions, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
            role: The name of a role, unique in its template.
        """
        return self._all(
            "list_room_sessions",
            "sessions",
            [room],
            query={
                "identity": identity,
                "role": role,
                "active": active,
                "after": after,
                "before": before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def list_sessions(
        self,
        *,
        room: str | None = None,
        identity: str | None = None,
        role: str | None = None,
        active: bool | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> SessionPage:
        """List sessions, newest first.

        Args:
            room: The name of a room, which a project uses once.
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
            role: The name of a role, unique in its template.
        """
        return self._send(
            "list_sessions",
            [],
            query={
                "room": room,
                "identity": identity,
                "role": role,
                "active": active,
                "after": after,
                "before": before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def all_sessions(
        self,
        *,
        room: str | None = None,
        identity: str | None = None,
        role: str | None = None,
        active: bool | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Session]:
        """List sessions, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            room: The name of a room, which a project uses once.
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
            role: The name of a role, unique in its template.
        """
        return self._all(
            "list_sessions",
            "sessions",
            [],
            query={
                "room": room,
                "identity": identity,
                "role": role,
                "active": active,
                "after": after,
                "before": before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def get_session(
        self,
        session_id: str,
        *,
        timeout: float | None = None,
    ) -> SessionDetail:
        """Read a session with its tracks."""
        return self._send("get_session", [session_id], timeout=timeout)

    def list_templates(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> TemplatePage:
        """List templates."""
        return self._send("list_templates", [], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_templates(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Template]:
        """List templates.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all("list_templates", "templates", [], query={"limit": limit, "offset": offset}, timeout=timeout)

    def create_template(
        self,
        *,
        name: str,
        roles: Mapping[str, RoleInput | Role] | None = None,
        settings: TemplateSettingsInput | TemplateSettings | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Template:
        """Create a template and its roles.

        Args:
            name: Unique in the project.
            roles: Keyed by role name.
            settings: Settings of a template to create or change.
        """
        return self._send(
            "create_template",
            [],
            body={"name": name, "roles": roles, "settings": settings},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def delete_template(
        self,
        template_id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete a template with its roles."""
        self._send("delete_template", [template_id], timeout=timeout)

    def get_template(
        self,
        template_id: str,
        *,
        timeout: float | None = None,
    ) -> Template:
        """Read a template."""
        return self._send("get_template", [template_id], timeout=timeout)

    def update_template(
        self,
        template_id: str,
        *,
        name: str | None = None,
        roles: Mapping[str, RoleInput | Role] | None = None,
        settings: TemplateSettingsInput | TemplateSettings | None = None,
        timeout: float | None = None,
    ) -> Template:
        """Change a template; omitted fields stay unchanged.

        Args:
            name: The name of a template, unique in its project.
            roles: Keyed by role name.
            settings: Settings of a template to create or change.
        """
        return self._send(
            "update_template", [template_id], body={"name": name, "roles": roles, "settings": settings}, timeout=timeout
        )

    def list_destinations(
        self,
        template_id: str,
        *,
        timeout: float | None = None,
    ) -> DestinationList:
        """List a template's destinations."""
        return self._send("list_destinations", [template_id], timeout=timeout)

    @overload
    def create_destination(
        self,
        template_id: str,
        *,
        name: str,
        kind: Literal["recording"],
        config: NewS3Destination | NewGcpDestination | NewAzureDestination,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Destination: ...
    @overload
    def create_destination(
        self,
        template_id: str,
        *,
        name: str,
        kind: Literal["rtmp"],
        config: RtmpDestinationInput,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Destination: ...
    def create_destination(
        self,
        template_id: str,
        *,
        name: str,
        kind: Literal["recording", "rtmp"],
        config: NewS3Destination | NewGcpDestination | NewAzureDestination | RtmpDestinationInput,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Destination:
        """Create a destination.

        Args:
            name: Unique in the template.
        """
        return self._send(
            "create_destination",
            [template_id],
            body={"name": name, "kind": kind, "config": config},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def delete_destination(
        self,
        template_id: str,
        destination: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete a destination that no running egress uses."""
        self._send("delete_destination", [template_id, destination], timeout=timeout)

    def get_destination(
        self,
        template_id: str,
        destination: str,
        *,
        timeout: float | None = None,
    ) -> Destination:
        """Read a destination, without its secrets."""
        return self._send("get_destination", [template_id, destination], timeout=timeout)

    def update_destination(
        self,
        template_id: str,
        destination: str,
        *,
        config: S3DestinationInput
        | S3Destination
        | GcpDestinationInput
        | GcpDestination
        | AzureDestinationInput
        | AzureDestination
        | RtmpDestinationInput,
        kind: DestinationKind | None = None,
        timeout: float | None = None,
    ) -> Destination:
        """Replace a destination's configuration; credentials left out are kept.

        Args:
            config: By the destination's kind: object storage for recordings, or URLs for broadcasts.
            kind: Must be the stored kind.
        """
        return self._send(
            "update_destination", [template_id, destination], body={"config": config, "kind": kind}, timeout=timeout
        )

    def delete_role(
        self,
        template_id: str,
        role: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete a role."""
        self._send("delete_role", [template_id, role], timeout=timeout)

    def get_role(
        self,
        template_id: str,
        role: str,
        *,
        timeout: float | None = None,
    ) -> Role:
        """Read a role."""
        return self._send("get_role", [template_id, role], timeout=timeout)

    def put_role(
        self,
        template_id: str,
        role: str,
        *,
        attributes: Mapping[str, str] | None = None,
        hidden: bool | None = None,
        max_peer_count: int | None = None,
        name: str | None = None,
        permissions: RolePermissionsInput | RolePermissions | None = None,
        priority: int | None = None,
        publish: RolePublishInput | RolePublish | None = None,
        subscribe: RoleSubscribeInput | RoleSubscribe | None = None,
        timeout: float | None = None,
    ) -> Role:
        """Create or replace a role.

        Args:
            attributes: Beyond the contract: attributes that participants who join with the role start with;
                default none.
            hidden: Whether holders are invisible to other participants; default false.
            max_peer_count: Maximum number of concurrent holders in a room; default 0, unlimited.
            name: If sent, must be the name of the role in the template.
            permissions: The moderation calls that holders may make; default none.
            priority: Priority; default 3.
            publish: The media that holders may publish; default everything.
            subscribe: The roles whose media holders receive; default all.
        """
        return self._send(
            "put_role",
            [template_id, role],
            body={
                "attributes": attributes,
                "hidden": hidden,
                "max_peer_count": max_peer_count,
                "name": name,
                "permissions": permissions,
                "priority": priority,
                "publish": publish,
                "subscribe": subscribe,
            },
            timeout=timeout,
        )

    def get_template_settings(
        self,
        template_id: str,
        *,
        timeout: float | None = None,
    ) -> TemplateSettingsDetail:
        """Read a template's settings."""
        return self._send("get_template_settings", [template_id], timeout=timeout)

    def update_template_settings(
        self,
        template_id: str,
        *,
        region: Region,
        auto_record: Mapping[str, Any] | None = None,
        max_duration_seconds: int | None = None,
        timeout: float | None = None,
    ) -> TemplateSettingsDetail:
        """Set a template's region.

        Args:
            region: A media region. Stored and validated; it does not change where traffic goes today.
            auto_record: A recording that starts by itself when participants join a room of the template.
        """
        return self._send(
            "update_template_settings",
            [template_id],
            body={"region": region, "auto_record": auto_record, "max_duration_seconds": max_duration_seconds},
            timeout=timeout,
        )

    def create_token(
        self,
        *,
        room: str,
        identity: str,
        metadata: str | None = None,
        name: str | None = None,
        permissions: Permissions | None = None,
        role: str | None = None,
        ttl_seconds: int | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Token:
        """Mint a room token.

        Args:
            room: An existing room.
            identity: The participant's identity.
            metadata: Forwarded to the media plane unchanged.
            name: The participant's display name.
            permissions: Used only when no role is named.
            role: A role in the room's template; it replaces `permissions`.
            ttl_seconds: Default 3600, clamped to 60..86400; 0 means the default.
        """
        return self._send(
            "create_token",
            [],
            body={
                "room": room,
                "identity": identity,
                "metadata": metadata,
                "name": name,
                "permissions": permissions,
                "role": role,
                "ttl_seconds": ttl_seconds,
            },
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def get_usage(
        self,
        *,
        from_: datetime.date | None = None,
        to: datetime.date | None = None,
        timeout: float | None = None,
    ) -> Usage:
        """Read participant minutes by day."""
        return self._send("get_usage", [], query={"from": from_, "to": to}, timeout=timeout)

    def list_webhook_deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        event_type: EventType | None = None,
        endpoint_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> WebhookDeliveryPage:
        """List deliveries, newest first.

        Args:
            status: The status of a delivery. A retry makes a failed delivery pending again.
            event_type: The name of an event.
            endpoint_id: The id of a webhook endpoint.
        """
        return self._send(
            "list_webhook_deliveries",
            [],
            query={
                "status": status,
                "event_type": event_type,
                "endpoint_id": endpoint_id,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def all_webhook_deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        event_type: EventType | None = None,
        endpoint_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[WebhookDelivery]:
        """List deliveries, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            status: The status of a delivery. A retry makes a failed delivery pending again.
            event_type: The name of an event.
            endpoint_id: The id of a webhook endpoint.
        """
        return self._all(
            "list_webhook_deliveries",
            "webhook_deliveries",
            [],
            query={
                "status": status,
                "event_type": event_type,
                "endpoint_id": endpoint_id,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def retry_webhook_delivery(
        self,
        webhook_delivery_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> WebhookDelivery:
        """Queue a failed delivery again."""
        return self._send(
            "retry_webhook_delivery", [webhook_delivery_id], idempotency_key=idempotency_key, timeout=timeout
        )

    def list_webhook_endpoints(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> WebhookEndpointPage:
        """List webhook endpoints."""
        return self._send("list_webhook_endpoints", [], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_webhook_endpoints(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[WebhookEndpoint]:
        """List webhook endpoints.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all(
            "list_webhook_endpoints", "webhook_endpoints", [], query={"limit": limit, "offset": offset}, timeout=timeout
        )

    def create_webhook_endpoint(
        self,
        *,
        url: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> WebhookEndpointCreated:
        """Register a webhook endpoint.

        Args:
            url: http or https, resolving to a public address.
        """
        return self._send(
            "create_webhook_endpoint", [], body={"url": url}, idempotency_key=idempotency_key, timeout=timeout
        )

    def delete_webhook_endpoint(
        self,
        webhook_endpoint_id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Stop delivery to an endpoint and drop its queued deliveries."""
        self._send("delete_webhook_endpoint", [webhook_endpoint_id], timeout=timeout)


class ExtCalls(Extension):
    """The calls of `Conclave.ext`: those below `/ext/v1`, beyond the contract.

    Each takes `timeout`, in seconds, in place of the client's. `idempotency_key` takes the place of the key
    that is made for each call: a repeated key returns the first response again, for 24 hours.
    """

    def list_events(
        self,
        *,
        after: int | None = None,
        since: datetime.datetime | None = None,
        room: str | None = None,
        type: EventType | None = None,
        identity: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> EventRecordPage:
        """List events, oldest first, from a position or an instant on.

        Args:
            room: The name of a room, which a project uses once.
            type: The name of an event.
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
        """
        return self._send(
            "list_events",
            [],
            query={
                "after": after,
                "since": since,
                "room": room,
                "type": type,
                "identity": identity,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def all_events(
        self,
        *,
        after: int | None = None,
        since: datetime.datetime | None = None,
        room: str | None = None,
        type: EventType | None = None,
        identity: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[EventRecord]:
        """List events, oldest first, from a position or an instant on.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            room: The name of a room, which a project uses once.
            type: The name of an event.
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
        """
        return self._all(
            "list_events",
            "events",
            [],
            query={
                "after": after,
                "since": since,
                "room": room,
                "type": type,
                "identity": identity,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def erase_identity(
        self,
        identity: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> ErasedIdentity:
        """Erase a person: remove the participant, delete its recordings, and replace the identity in all
        records.
        """
        return self._send("erase_identity", [identity], idempotency_key=idempotency_key, timeout=timeout)

    def pause_recording(
        self,
        egress_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Recording:
        """Pause a recording; its file continues without the pause."""
        return self._send("pause_recording", [egress_id], idempotency_key=idempotency_key, timeout=timeout)

    def resume_recording(
        self,
        egress_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Recording:
        """Resume a paused recording."""
        return self._send("resume_recording", [egress_id], idempotency_key=idempotency_key, timeout=timeout)

    def list_live_rooms(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> LiveRoomPage:
        """List rooms in which a participant is connected, latest first join first."""
        return self._send("list_live_rooms", [], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_live_rooms(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[LiveRoom]:
        """List rooms in which a participant is connected, latest first join first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all("list_live_rooms", "rooms", [], query={"limit": limit, "offset": offset}, timeout=timeout)

    def list_bans(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> BanPage:
        """List a room's bans, newest first, including bans that are over."""
        return self._send("list_bans", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_bans(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Ban]:
        """List a room's bans, newest first, including bans that are over.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all("list_bans", "bans", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    def lift_ban(
        self,
        room: str,
        identity: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Lift a ban; the identity's tokens are valid again, unless they were revoked."""
        self._send("lift_ban", [room, identity], timeout=timeout)

    def ban_participant(
        self,
        room: str,
        identity: str,
        *,
        reason: str | None = None,
        until: datetime.datetime | None = None,
        timeout: float | None = None,
    ) -> Ban:
        """Ban an identity from a room, and disconnect its participant; change the terms of its ban.

        Args:
            until: The end of the ban, in the future; absent: until it is lifted.
        """
        return self._send("ban_participant", [room, identity], body={"reason": reason, "until": until}, timeout=timeout)

    def disable_room_code(
        self,
        room: str,
        code_id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Disable a room code by its id; tokens from earlier exchanges stay valid."""
        self._send("disable_room_code", [room, code_id], timeout=timeout)

    def record_participants(
        self,
        room: str,
        *,
        destination: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> ParticipantRecordings:
        """Start a recording of each participant in the room, unless it is being recorded.

        Args:
            destination: A recording destination of the room's template. Without one, the files are written
                to the project's local directory.
        """
        return self._send(
            "record_participants",
            [room],
            body={"destination": destination},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def list_worst_sessions(
        self,
        *,
        day: datetime.date | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> MeasuredSessionPage:
        """List a day's measured sessions, lowest mean score first."""
        return self._send(
            "list_worst_sessions", [], query={"day": day, "limit": limit, "offset": offset}, timeout=timeout
        )

    def all_worst_sessions(
        self,
        *,
        day: datetime.date | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[MeasuredSession]:
        """List a day's measured sessions, lowest mean score first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all(
            "list_worst_sessions", "sessions", [], query={"day": day, "limit": limit, "offset": offset}, timeout=timeout
        )

    def get_session_quality(
        self,
        session_id: str,
        *,
        timeout: float | None = None,
    ) -> SessionQuality:
        """Read the summary of a session's quality."""
        return self._send("get_session_quality", [session_id], timeout=timeout)

    def list_session_quality_samples(
        self,
        session_id: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> SessionQualitySamplePage:
        """List a session's quality samples, one for each ten seconds while connected, newest first."""
        return self._send(
            "list_session_quality_samples", [session_id], query={"limit": limit, "offset": offset}, timeout=timeout
        )

    def all_session_quality_samples(
        self,
        session_id: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> Iterator[SessionQualitySample]:
        """List a session's quality samples, one for each ten seconds while connected, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all(
            "list_session_quality_samples",
            "samples",
            [session_id],
            query={"limit": limit, "offset": offset},
            timeout=timeout,
        )

    def update_webhook_endpoint(
        self,
        webhook_endpoint_id: str,
        *,
        active: bool | None = None,
        description: str | None = None,
        events: Sequence[str] | None = None,
        url: str | None = None,
        timeout: float | None = None,
    ) -> WebhookEndpoint:
        """Change a webhook endpoint; omitted fields stay unchanged.

        Args:
            active: False: no event is queued, and pending deliveries wait. True also enables an endpoint
                that the server has disabled.
            description: Up to 500 characters, without control characters.
            events: Event types to queue from now on; empty: all.
            url: http or https, resolving to a public address. Deliveries that are already queued go there,
                too.
        """
        return self._send(
            "update_webhook_endpoint",
            [webhook_endpoint_id],
            body={"active": active, "description": description, "events": events, "url": url},
            timeout=timeout,
        )

    def rotate_webhook_secret(
        self,
        webhook_endpoint_id: str,
        *,
        overlap_seconds: int | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> WebhookSecretRotated:
        """Replace a webhook endpoint's signing secret, with an overlap of both.

        Args:
            overlap_seconds: Time for which deliveries are also signed with the previous secret; 86400 by
                default, 0 for none.
        """
        return self._send(
            "rotate_webhook_secret",
            [webhook_endpoint_id],
            body={"overlap_seconds": overlap_seconds},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )


class AsyncCalls(AsyncSender):
    """The calls of `AsyncConclave`.

    Each takes `timeout`, in seconds, in place of the client's. `idempotency_key` takes the place of the key
    that is made for each call: a repeated key returns the first response again, for 24 hours.
    """

    async def list_broadcasts(
        self,
        *,
        room: str | None = None,
        status: EgressStatus | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> BroadcastPage:
        """List the project's broadcasts, newest first.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of a recording or a broadcast. It only moves forward, and never leaves one of
                the last four.
        """
        return await self._send(
            "list_broadcasts",
            [],
            query={"room": room, "status": status, "after": after, "before": before, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    def all_broadcasts(
        self,
        *,
        room: str | None = None,
        status: EgressStatus | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Broadcast]:
        """List the project's broadcasts, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of a recording or a broadcast. It only moves forward, and never leaves one of
                the last four.
        """
        return self._all(
            "list_broadcasts",
            "broadcasts",
            [],
            query={"room": room, "status": status, "after": after, "before": before, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    async def get_broadcast(
        self,
        egress_id: str,
        *,
        timeout: float | None = None,
    ) -> Broadcast:
        """Read a broadcast; while it runs, with its current status from the media plane."""
        return await self._send("get_broadcast", [egress_id], timeout=timeout)

    async def stop_broadcast(
        self,
        egress_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Broadcast:
        """Stop a broadcast."""
        return await self._send("stop_broadcast", [egress_id], idempotency_key=idempotency_key, timeout=timeout)

    async def disable_code(
        self,
        code: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Disable a room code; tokens from earlier exchanges stay valid."""
        await self._send("disable_code", [code], timeout=timeout)

    async def exchange_code(
        self,
        code: str,
        *,
        identity: str | None = None,
        name: str | None = None,
        timeout: float | None = None,
    ) -> Token:
        """Exchange a room code for a room token.

        Args:
            identity: Must not be connected to the room, nor have a role there. Ignored if the code is
                locked to an identity. Default: `guest-` and eight random characters.
            name: The display name of the participant: 1 to 256 bytes of text without control characters and
                marks of direction.
        """
        return await self._send("exchange_code", [code], body={"identity": identity, "name": name}, timeout=timeout)

    async def list_ingresses(
        self,
        *,
        room: str | None = None,
        status: IngressStatus | None = None,
        input_type: InputType | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> IngressPage:
        """List endpoints, newest first, including deleted ones.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of an ingress endpoint.
            input_type: The protocol by which an encoder publishes.
        """
        return await self._send(
            "list_ingresses",
            [],
            query={"room": room, "status": status, "input_type": input_type, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    def all_ingresses(
        self,
        *,
        room: str | None = None,
        status: IngressStatus | None = None,
        input_type: InputType | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Ingress]:
        """List endpoints, newest first, including deleted ones.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of an ingress endpoint.
            input_type: The protocol by which an encoder publishes.
        """
        return self._all(
            "list_ingresses",
            "ingresses",
            [],
            query={"room": room, "status": status, "input_type": input_type, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    async def delete_ingress(
        self,
        ingress_id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete an endpoint; its stream key is invalid at once."""
        await self._send("delete_ingress", [ingress_id], timeout=timeout)

    async def get_ingress(
        self,
        ingress_id: str,
        *,
        timeout: float | None = None,
    ) -> Ingress:
        """Read an endpoint, with its current status from the media plane."""
        return await self._send("get_ingress", [ingress_id], timeout=timeout)

    async def get_plan(
        self,
        *,
        timeout: float | None = None,
    ) -> PlanStatus:
        """Read the project's status under its plan."""
        return await self._send("get_plan", [], timeout=timeout)

    async def list_recordings(
        self,
        *,
        room: str | None = None,
        status: EgressStatus | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> RecordingPage:
        """List the project's recordings, newest first.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of a recording or a broadcast. It only moves forward, and never leaves one of
                the last four.
        """
        return await self._send(
            "list_recordings",
            [],
            query={"room": room, "status": status, "after": after, "before": before, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    def all_recordings(
        self,
        *,
        room: str | None = None,
        status: EgressStatus | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Recording]:
        """List the project's recordings, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            room: The name of a room, which a project uses once.
            status: The status of a recording or a broadcast. It only moves forward, and never leaves one of
                the last four.
        """
        return self._all(
            "list_recordings",
            "recordings",
            [],
            query={"room": room, "status": status, "after": after, "before": before, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    async def get_recording(
        self,
        egress_id: str,
        *,
        timeout: float | None = None,
    ) -> Recording:
        """Read a recording; while it runs, with its current status from the media plane."""
        return await self._send("get_recording", [egress_id], timeout=timeout)

    async def stop_recording(
        self,
        egress_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Recording:
        """Stop a recording; its file is complete shortly after."""
        return await self._send("stop_recording", [egress_id], idempotency_key=idempotency_key, timeout=timeout)

    async def list_rooms(
        self,
        *,
        status: RoomStatus | None = None,
        name_prefix: str | None = None,
        created_after: datetime.datetime | None = None,
        created_before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> RoomPage:
        """List rooms, newest first, including ended ones.

        Args:
            status: The status of a room. The only transition is from open to ended.
            name_prefix: The start of a room's name.
        """
        return await self._send(
            "list_rooms",
            [],
            query={
                "status": status,
                "name_prefix": name_prefix,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def all_rooms(
        self,
        *,
        status: RoomStatus | None = None,
        name_prefix: str | None = None,
        created_after: datetime.datetime | None = None,
        created_before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Room]:
        """List rooms, newest first, including ended ones.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            status: The status of a room. The only transition is from open to ended.
            name_prefix: The start of a room's name.
        """
        return self._all(
            "list_rooms",
            "rooms",
            [],
            query={
                "status": status,
                "name_prefix": name_prefix,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    async def create_room(
        self,
        *,
        name: str,
        empty_timeout_seconds: int | None = None,
        max_duration_seconds: int | None = None,
        max_participants: int | None = None,
        metadata: Any | None = None,
        template_id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Room:
        """Create a room.

        Args:
            name: Never used before in the project.
            empty_timeout_seconds: Time in seconds that the room stays open without participants; default
                300.
            max_participants: Maximum number of participants; default 0, the plan's limit.
            metadata: Any JSON, returned unchanged.
            template_id: The project's default template when absent.
        """
        return await self._send(
            "create_room",
            [],
            body={
                "name": name,
                "empty_timeout_seconds": empty_timeout_seconds,
                "max_duration_seconds": max_duration_seconds,
                "max_participants": max_participants,
                "metadata": metadata,
                "template_id": template_id,
            },
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    async def end_room(
        self,
        room: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """End a room and disconnect its participants."""
        await self._send("end_room", [room], timeout=timeout)

    async def get_room(
        self,
        room: str,
        *,
        timeout: float | None = None,
    ) -> Room:
        """Read a room's record."""
        return await self._send("get_room", [room], timeout=timeout)

    async def start_broadcast(
        self,
        room: str,
        *,
        audio_only: bool | None = None,
        destination: str | None = None,
        layout: Layout | None = None,
        urls: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Broadcast:
        """Start a broadcast.

        Args:
            audio_only: Whether to send audio without video; default false.
            destination: An RTMP destination of the room's template. Mutually exclusive with `urls`.
            layout: Arrangement of the participants; default grid.
            urls: 1 to 8 `rtmp://` or `rtmps://` URLs. Required without `destination`; mutually exclusive
                with it.
        """
        return await self._send(
            "start_broadcast",
            [room],
            body={"audio_only": audio_only, "destination": destination, "layout": layout, "urls": urls},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    async def list_codes(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> RoomCodePage:
        """List a room's codes, newest first, including unusable ones."""
        return await self._send("list_codes", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_codes(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[RoomCode]:
        """List a room's codes, newest first, including unusable ones.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all("list_codes", "codes", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    async def create_code(
        self,
        room: str,
        *,
        role: str,
        expires_at: datetime.datetime | None = None,
        identity: str | None = None,
        max_uses: int | None = None,
        ttl_seconds: int | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> RoomCode:
        """Create a room code; the complete code is shown only in this response.

        Args:
            role: A role of the room's template, which the tokens get.
            expires_at: 60 seconds to 30 days from now. Mutually exclusive with `ttl_seconds`.
            identity: Locks the code to one identity.
            max_uses: Maximum number of exchanges; null or omitted: unlimited.
            ttl_seconds: Default 86400. Mutually exclusive with `expires_at`.
        """
        return await self._send(
            "create_code",
            [room],
            body={
                "role": role,
                "expires_at": expires_at,
                "identity": identity,
                "max_uses": max_uses,
                "ttl_seconds": ttl_seconds,
            },
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    async def create_ingress(
        self,
        room: str,
        *,
        input_type: InputType,
        participant_identity: str,
        enable_transcoding: bool | None = None,
        participant_name: str | None = None,
        timeout: float | None = None,
    ) -> IngressCreated:
        """Create an endpoint for an encoder; its stream key is shown only in this response.

        Args:
            input_type: Protocol that the encoder publishes with.
            participant_identity: Identity with which the encoder joins.
            enable_transcoding: Null or omitted: the media plane's default for the input type.
            participant_name: Display name with which the encoder joins.
        """
        return await self._send(
            "create_ingress",
            [room],
            body={
                "input_type": input_type,
                "participant_identity": participant_identity,
                "enable_transcoding": enable_transcoding,
                "participant_name": participant_name,
            },
            timeout=timeout,
        )

    async def list_participants(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> ParticipantPage:
        """List a room's participants."""
        return await self._send("list_participants", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_participants(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Participant]:
        """List a room's participants.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all(
            "list_participants", "participants", [room], query={"limit": limit, "offset": offset}, timeout=timeout
        )

    async def remove_participant(
        self,
        room: str,
        identity: str,
        *,
        revoke: bool | None = None,
        timeout: float | None = None,
    ) -> None:
        """Disconnect a participant; its token stays valid, unless `revoke` is true."""
        await self._send("remove_participant", [room, identity], query={"revoke": revoke}, timeout=timeout)

    async def get_participant(
        self,
        room: str,
        identity: str,
        *,
        timeout: float | None = None,
    ) -> Participant:
        """Read one participant."""
        return await self._send("get_participant", [room, identity], timeout=timeout)

    async def mute_track(
        self,
        room: str,
        identity: str,
        *,
        track_sid: str,
        muted: bool,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> MutedTrack:
        """Mute or unmute a participant's track.

        Args:
            track_sid: A track that the participant publishes.
            muted: true mutes, false unmutes.
        """
        return await self._send(
            "mute_track",
            [room, identity],
            body={"track_sid": track_sid, "muted": muted},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    async def change_role(
        self,
        room: str,
        identity: str,
        *,
        role: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> RoleChangeResult:
        """Change a connected participant's role.

        Args:
            role: A role in the room's template.
        """
        return await self._send(
            "change_role", [room, identity], body={"role": role}, idempotency_key=idempotency_key, timeout=timeout
        )

    async def list_room_recordings(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> RecordingPage:
        """List a room's recordings, newest first."""
        return await self._send(
            "list_room_recordings", [room], query={"limit": limit, "offset": offset}, timeout=timeout
        )

    def all_room_recordings(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Recording]:
        """List a room's recordings, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all(
            "list_room_recordings", "recordings", [room], query={"limit": limit, "offset": offset}, timeout=timeout
        )

    async def start_recording(
        self,
        room: str,
        *,
        type: RecordingType,
        audio_only: bool | None = None,
        destination: str | None = None,
        filepath: str | None = None,
        identity: str | None = None,
        layout: Layout | None = None,
        track_id: str | None = None,
        video_only: bool | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Recording:
        """Start a recording.

        Args:
            type: The part of a room that a recording contains.
            audio_only: Record audio only. Only for `room_composite`; mutually exclusive with `video_only`.
            destination: A recording destination of the room's template. Without one, the file is written to
                the project's local directory.
            filepath: A relative path inside the project's recording directory, or the destination. Default
                `{room}-{UTC time}.mp4`, or `.ogg` for audio only, including an audio track.
            identity: The participant. Only for `participant`, where it is required.
            layout: Default speaker. Only for `room_composite`.
            track_id: The track. Only for `track`, where it is required.
            video_only: Record video only. Only for `room_composite`; mutually exclusive with `audio_only`.
        """
        return await self._send(
            "start_recording",
            [room],
            body={
                "type": type,
                "audio_only": audio_only,
                "destination": destination,
                "filepath": filepath,
                "identity": identity,
                "layout": layout,
                "track_id": track_id,
                "video_only": video_only,
            },
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    async def list_role_changes(
        self,
        room: str,
        *,
        identity: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> RoleChangePage:
        """List a room's role changes, newest first.

        Args:
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
        """
        return await self._send(
            "list_role_changes", [room], query={"identity": identity, "limit": limit, "offset": offset}, timeout=timeout
        )

    def all_role_changes(
        self,
        room: str,
        *,
        identity: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[RoleChange]:
        """List a room's role changes, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
        """
        return self._all(
            "list_role_changes",
            "role_changes",
            [room],
            query={"identity": identity, "limit": limit, "offset": offset},
            timeout=timeout,
        )

    async def send_data(
        self,
        room: str,
        *,
        data: bytes | str,
        destination_identities: Sequence[str] | None = None,
        kind: DataKind | None = None,
        topic: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> DataSent:
        """Send data to all or some of a room's participants.

        Args:
            data: Message bytes in standard base64.
            destination_identities: Receivers; absent or empty means all participants.
            kind: Delivery mode; default reliable.
            topic: Topic that clients can filter by.
        """
        return await self._send(
            "send_data",
            [room],
            body={"data": data, "destination_identities": destination_identities, "kind": kind, "topic": topic},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    async def list_room_sessions(
        self,
        room: str,
        *,
        identity: str | None = None,
        role: str | None = None,
        active: bool | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> SessionPage:
        """List a room's sessions, newest first.

        Args:
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
            role: The name of a role, unique in its template.
        """
        return await self._send(
            "list_room_sessions",
            [room],
            query={
                "identity": identity,
                "role": role,
                "active": active,
                "after": after,
                "before": before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def all_room_sessions(
        self,
        room: str,
        *,
        identity: str | None = None,
        role: str | None = None,
        active: bool | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Session]:
        """List a room's sessions, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
            role: The name of a role, unique in its template.
        """
        return self._all(
            "list_room_sessions",
            "sessions",
            [room],
            query={
                "identity": identity,
                "role": role,
                "active": active,
                "after": after,
                "before": before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    async def list_sessions(
        self,
        *,
        room: str | None = None,
        identity: str | None = None,
        role: str | None = None,
        active: bool | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> SessionPage:
        """List sessions, newest first.

        Args:
            room: The name of a room, which a project uses once.
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
            role: The name of a role, unique in its template.
        """
        return await self._send(
            "list_sessions",
            [],
            query={
                "room": room,
                "identity": identity,
                "role": role,
                "active": active,
                "after": after,
                "before": before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def all_sessions(
        self,
        *,
        room: str | None = None,
        identity: str | None = None,
        role: str | None = None,
        active: bool | None = None,
        after: datetime.datetime | None = None,
        before: datetime.datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Session]:
        """List sessions, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            room: The name of a room, which a project uses once.
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
            role: The name of a role, unique in its template.
        """
        return self._all(
            "list_sessions",
            "sessions",
            [],
            query={
                "room": room,
                "identity": identity,
                "role": role,
                "active": active,
                "after": after,
                "before": before,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    async def get_session(
        self,
        session_id: str,
        *,
        timeout: float | None = None,
    ) -> SessionDetail:
        """Read a session with its tracks."""
        return await self._send("get_session", [session_id], timeout=timeout)

    async def list_templates(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> TemplatePage:
        """List templates."""
        return await self._send("list_templates", [], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_templates(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Template]:
        """List templates.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all("list_templates", "templates", [], query={"limit": limit, "offset": offset}, timeout=timeout)

    async def create_template(
        self,
        *,
        name: str,
        roles: Mapping[str, RoleInput | Role] | None = None,
        settings: TemplateSettingsInput | TemplateSettings | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Template:
        """Create a template and its roles.

        Args:
            name: Unique in the project.
            roles: Keyed by role name.
            settings: Settings of a template to create or change.
        """
        return await self._send(
            "create_template",
            [],
            body={"name": name, "roles": roles, "settings": settings},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    async def delete_template(
        self,
        template_id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete a template with its roles."""
        await self._send("delete_template", [template_id], timeout=timeout)

    async def get_template(
        self,
        template_id: str,
        *,
        timeout: float | None = None,
    ) -> Template:
        """Read a template."""
        return await self._send("get_template", [template_id], timeout=timeout)

    async def update_template(
        self,
        template_id: str,
        *,
        name: str | None = None,
        roles: Mapping[str, RoleInput | Role] | None = None,
        settings: TemplateSettingsInput | TemplateSettings | None = None,
        timeout: float | None = None,
    ) -> Template:
        """Change a template; omitted fields stay unchanged.

        Args:
            name: The name of a template, unique in its project.
            roles: Keyed by role name.
            settings: Settings of a template to create or change.
        """
        return await self._send(
            "update_template", [template_id], body={"name": name, "roles": roles, "settings": settings}, timeout=timeout
        )

    async def list_destinations(
        self,
        template_id: str,
        *,
        timeout: float | None = None,
    ) -> DestinationList:
        """List a template's destinations."""
        return await self._send("list_destinations", [template_id], timeout=timeout)

    @overload
    async def create_destination(
        self,
        template_id: str,
        *,
        name: str,
        kind: Literal["recording"],
        config: NewS3Destination | NewGcpDestination | NewAzureDestination,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Destination: ...
    @overload
    async def create_destination(
        self,
        template_id: str,
        *,
        name: str,
        kind: Literal["rtmp"],
        config: RtmpDestinationInput,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Destination: ...
    async def create_destination(
        self,
        template_id: str,
        *,
        name: str,
        kind: Literal["recording", "rtmp"],
        config: NewS3Destination | NewGcpDestination | NewAzureDestination | RtmpDestinationInput,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Destination:
        """Create a destination.

        Args:
            name: Unique in the template.
        """
        return await self._send(
            "create_destination",
            [template_id],
            body={"name": name, "kind": kind, "config": config},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    async def delete_destination(
        self,
        template_id: str,
        destination: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete a destination that no running egress uses."""
        await self._send("delete_destination", [template_id, destination], timeout=timeout)

    async def get_destination(
        self,
        template_id: str,
        destination: str,
        *,
        timeout: float | None = None,
    ) -> Destination:
        """Read a destination, without its secrets."""
        return await self._send("get_destination", [template_id, destination], timeout=timeout)

    async def update_destination(
        self,
        template_id: str,
        destination: str,
        *,
        config: S3DestinationInput
        | S3Destination
        | GcpDestinationInput
        | GcpDestination
        | AzureDestinationInput
        | AzureDestination
        | RtmpDestinationInput,
        kind: DestinationKind | None = None,
        timeout: float | None = None,
    ) -> Destination:
        """Replace a destination's configuration; credentials left out are kept.

        Args:
            config: By the destination's kind: object storage for recordings, or URLs for broadcasts.
            kind: Must be the stored kind.
        """
        return await self._send(
            "update_destination", [template_id, destination], body={"config": config, "kind": kind}, timeout=timeout
        )

    async def delete_role(
        self,
        template_id: str,
        role: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Delete a role."""
        await self._send("delete_role", [template_id, role], timeout=timeout)

    async def get_role(
        self,
        template_id: str,
        role: str,
        *,
        timeout: float | None = None,
    ) -> Role:
        """Read a role."""
        return await self._send("get_role", [template_id, role], timeout=timeout)

    async def put_role(
        self,
        template_id: str,
        role: str,
        *,
        attributes: Mapping[str, str] | None = None,
        hidden: bool | None = None,
        max_peer_count: int | None = None,
        name: str | None = None,
        permissions: RolePermissionsInput | RolePermissions | None = None,
        priority: int | None = None,
        publish: RolePublishInput | RolePublish | None = None,
        subscribe: RoleSubscribeInput | RoleSubscribe | None = None,
        timeout: float | None = None,
    ) -> Role:
        """Create or replace a role.

        Args:
            attributes: Beyond the contract: attributes that participants who join with the role start with;
                default none.
            hidden: Whether holders are invisible to other participants; default false.
            max_peer_count: Maximum number of concurrent holders in a room; default 0, unlimited.
            name: If sent, must be the name of the role in the template.
            permissions: The moderation calls that holders may make; default none.
            priority: Priority; default 3.
            publish: The media that holders may publish; default everything.
            subscribe: The roles whose media holders receive; default all.
        """
        return await self._send(
            "put_role",
            [template_id, role],
            body={
                "attributes": attributes,
                "hidden": hidden,
                "max_peer_count": max_peer_count,
                "name": name,
                "permissions": permissions,
                "priority": priority,
                "publish": publish,
                "subscribe": subscribe,
            },
            timeout=timeout,
        )

    async def get_template_settings(
        self,
        template_id: str,
        *,
        timeout: float | None = None,
    ) -> TemplateSettingsDetail:
        """Read a template's settings."""
        return await self._send("get_template_settings", [template_id], timeout=timeout)

    async def update_template_settings(
        self,
        template_id: str,
        *,
        region: Region,
        auto_record: Mapping[str, Any] | None = None,
        max_duration_seconds: int | None = None,
        timeout: float | None = None,
    ) -> TemplateSettingsDetail:
        """Set a template's region.

        Args:
            region: A media region. Stored and validated; it does not change where traffic goes today.
            auto_record: A recording that starts by itself when participants join a room of the template.
        """
        return await self._send(
            "update_template_settings",
            [template_id],
            body={"region": region, "auto_record": auto_record, "max_duration_seconds": max_duration_seconds},
            timeout=timeout,
        )

    async def create_token(
        self,
        *,
        room: str,
        identity: str,
        metadata: str | None = None,
        name: str | None = None,
        permissions: Permissions | None = None,
        role: str | None = None,
        ttl_seconds: int | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Token:
        """Mint a room token.

        Args:
            room: An existing room.
            identity: The participant's identity.
            metadata: Forwarded to the media plane unchanged.
            name: The participant's display name.
            permissions: Used only when no role is named.
            role: A role in the room's template; it replaces `permissions`.
            ttl_seconds: Default 3600, clamped to 60..86400; 0 means the default.
        """
        return await self._send(
            "create_token",
            [],
            body={
                "room": room,
                "identity": identity,
                "metadata": metadata,
                "name": name,
                "permissions": permissions,
                "role": role,
                "ttl_seconds": ttl_seconds,
            },
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    async def get_usage(
        self,
        *,
        from_: datetime.date | None = None,
        to: datetime.date | None = None,
        timeout: float | None = None,
    ) -> Usage:
        """Read participant minutes by day."""
        return await self._send("get_usage", [], query={"from": from_, "to": to}, timeout=timeout)

    async def list_webhook_deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        event_type: EventType | None = None,
        endpoint_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> WebhookDeliveryPage:
        """List deliveries, newest first.

        Args:
            status: The status of a delivery. A retry makes a failed delivery pending again.
            event_type: The name of an event.
            endpoint_id: The id of a webhook endpoint.
        """
        return await self._send(
            "list_webhook_deliveries",
            [],
            query={
                "status": status,
                "event_type": event_type,
                "endpoint_id": endpoint_id,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def all_webhook_deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        event_type: EventType | None = None,
        endpoint_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[WebhookDelivery]:
        """List deliveries, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            status: The status of a delivery. A retry makes a failed delivery pending again.
            event_type: The name of an event.
            endpoint_id: The id of a webhook endpoint.
        """
        return self._all(
            "list_webhook_deliveries",
            "webhook_deliveries",
            [],
            query={
                "status": status,
                "event_type": event_type,
                "endpoint_id": endpoint_id,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    async def retry_webhook_delivery(
        self,
        webhook_delivery_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> WebhookDelivery:
        """Queue a failed delivery again."""
        return await self._send(
            "retry_webhook_delivery", [webhook_delivery_id], idempotency_key=idempotency_key, timeout=timeout
        )

    async def list_webhook_endpoints(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> WebhookEndpointPage:
        """List webhook endpoints."""
        return await self._send("list_webhook_endpoints", [], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_webhook_endpoints(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[WebhookEndpoint]:
        """List webhook endpoints.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all(
            "list_webhook_endpoints", "webhook_endpoints", [], query={"limit": limit, "offset": offset}, timeout=timeout
        )

    async def create_webhook_endpoint(
        self,
        *,
        url: str,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> WebhookEndpointCreated:
        """Register a webhook endpoint.

        Args:
            url: http or https, resolving to a public address.
        """
        return await self._send(
            "create_webhook_endpoint", [], body={"url": url}, idempotency_key=idempotency_key, timeout=timeout
        )

    async def delete_webhook_endpoint(
        self,
        webhook_endpoint_id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Stop delivery to an endpoint and drop its queued deliveries."""
        await self._send("delete_webhook_endpoint", [webhook_endpoint_id], timeout=timeout)


class AsyncExtCalls(AsyncExtension):
    """The calls of `AsyncConclave.ext`: those below `/ext/v1`, beyond the contract.

    Each takes `timeout`, in seconds, in place of the client's. `idempotency_key` takes the place of the key
    that is made for each call: a repeated key returns the first response again, for 24 hours.
    """

    async def list_events(
        self,
        *,
        after: int | None = None,
        since: datetime.datetime | None = None,
        room: str | None = None,
        type: EventType | None = None,
        identity: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> EventRecordPage:
        """List events, oldest first, from a position or an instant on.

        Args:
            room: The name of a room, which a project uses once.
            type: The name of an event.
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
        """
        return await self._send(
            "list_events",
            [],
            query={
                "after": after,
                "since": since,
                "room": room,
                "type": type,
                "identity": identity,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    def all_events(
        self,
        *,
        after: int | None = None,
        since: datetime.datetime | None = None,
        room: str | None = None,
        type: EventType | None = None,
        identity: str | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[EventRecord]:
        """List events, oldest first, from a position or an instant on.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.

        Args:
            room: The name of a room, which a project uses once.
            type: The name of an event.
            identity: The identity of a participant, unique in its room while the participant is connected.
                Not `.` or `..`, which HTTP clients resolve as steps in a path.
        """
        return self._all(
            "list_events",
            "events",
            [],
            query={
                "after": after,
                "since": since,
                "room": room,
                "type": type,
                "identity": identity,
                "limit": limit,
                "offset": offset,
            },
            timeout=timeout,
        )

    async def erase_identity(
        self,
        identity: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> ErasedIdentity:
        """Erase a person: remove the participant, delete its recordings, and replace the identity in all
        records.
        """
        return await self._send("erase_identity", [identity], idempotency_key=idempotency_key, timeout=timeout)

    async def pause_recording(
        self,
        egress_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Recording:
        """Pause a recording; its file continues without the pause."""
        return await self._send("pause_recording", [egress_id], idempotency_key=idempotency_key, timeout=timeout)

    async def resume_recording(
        self,
        egress_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Recording:
        """Resume a paused recording."""
        return await self._send("resume_recording", [egress_id], idempotency_key=idempotency_key, timeout=timeout)

    async def list_live_rooms(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> LiveRoomPage:
        """List rooms in which a participant is connected, latest first join first."""
        return await self._send("list_live_rooms", [], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_live_rooms(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[LiveRoom]:
        """List rooms in which a participant is connected, latest first join first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all("list_live_rooms", "rooms", [], query={"limit": limit, "offset": offset}, timeout=timeout)

    async def list_bans(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> BanPage:
        """List a room's bans, newest first, including bans that are over."""
        return await self._send("list_bans", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    def all_bans(
        self,
        room: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[Ban]:
        """List a room's bans, newest first, including bans that are over.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all("list_bans", "bans", [room], query={"limit": limit, "offset": offset}, timeout=timeout)

    async def lift_ban(
        self,
        room: str,
        identity: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Lift a ban; the identity's tokens are valid again, unless they were revoked."""
        await self._send("lift_ban", [room, identity], timeout=timeout)

    async def ban_participant(
        self,
        room: str,
        identity: str,
        *,
        reason: str | None = None,
        until: datetime.datetime | None = None,
        timeout: float | None = None,
    ) -> Ban:
        """Ban an identity from a room, and disconnect its participant; change the terms of its ban.

        Args:
            until: The end of the ban, in the future; absent: until it is lifted.
        """
        return await self._send(
            "ban_participant", [room, identity], body={"reason": reason, "until": until}, timeout=timeout
        )

    async def disable_room_code(
        self,
        room: str,
        code_id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Disable a room code by its id; tokens from earlier exchanges stay valid."""
        await self._send("disable_room_code", [room, code_id], timeout=timeout)

    async def record_participants(
        self,
        room: str,
        *,
        destination: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> ParticipantRecordings:
        """Start a recording of each participant in the room, unless it is being recorded.

        Args:
            destination: A recording destination of the room's template. Without one, the files are written
                to the project's local directory.
        """
        return await self._send(
            "record_participants",
            [room],
            body={"destination": destination},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    async def list_worst_sessions(
        self,
        *,
        day: datetime.date | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> MeasuredSessionPage:
        """List a day's measured sessions, lowest mean score first."""
        return await self._send(
            "list_worst_sessions", [], query={"day": day, "limit": limit, "offset": offset}, timeout=timeout
        )

    def all_worst_sessions(
        self,
        *,
        day: datetime.date | None = None,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[MeasuredSession]:
        """List a day's measured sessions, lowest mean score first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all(
            "list_worst_sessions", "sessions", [], query={"day": day, "limit": limit, "offset": offset}, timeout=timeout
        )

    async def get_session_quality(
        self,
        session_id: str,
        *,
        timeout: float | None = None,
    ) -> SessionQuality:
        """Read the summary of a session's quality."""
        return await self._send("get_session_quality", [session_id], timeout=timeout)

    async def list_session_quality_samples(
        self,
        session_id: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> SessionQualitySamplePage:
        """List a session's quality samples, one for each ten seconds while connected, newest first."""
        return await self._send(
            "list_session_quality_samples", [session_id], query={"limit": limit, "offset": offset}, timeout=timeout
        )

    def all_session_quality_samples(
        self,
        session_id: str,
        *,
        limit: int = 50,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[SessionQualitySample]:
        """List a session's quality samples, one for each ten seconds while connected, newest first.

        Yields the items of all pages, from `offset` on; `limit` is the size of a page.
        """
        return self._all(
            "list_session_quality_samples",
            "samples",
            [session_id],
            query={"limit": limit, "offset": offset},
            timeout=timeout,
        )

    async def update_webhook_endpoint(
        self,
        webhook_endpoint_id: str,
        *,
        active: bool | None = None,
        description: str | None = None,
        events: Sequence[str] | None = None,
        url: str | None = None,
        timeout: float | None = None,
    ) -> WebhookEndpoint:
        """Change a webhook endpoint; omitted fields stay unchanged.

        Args:
            active: False: no event is queued, and pending deliveries wait. True also enables an endpoint
                that the server has disabled.
            description: Up to 500 characters, without control characters.
            events: Event types to queue from now on; empty: all.
            url: http or https, resolving to a public address. Deliveries that are already queued go there,
                too.
        """
        return await self._send(
            "update_webhook_endpoint",
            [webhook_endpoint_id],
            body={"active": active, "description": description, "events": events, "url": url},
            timeout=timeout,
        )

    async def rotate_webhook_secret(
        self,
        webhook_endpoint_id: str,
        *,
        overlap_seconds: int | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> WebhookSecretRotated:
        """Replace a webhook endpoint's signing secret, with an overlap of both.

        Args:
            overlap_seconds: Time for which deliveries are also signed with the previous secret; 86400 by
                default, 0 for none.
        """
        return await self._send(
            "rotate_webhook_secret",
            [webhook_endpoint_id],
            body={"overlap_seconds": overlap_seconds},
            idempotency_key=idempotency_key,
            timeout=timeout,
        )
