from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.session_track import SessionTrack


T = TypeVar("T", bound="SessionDetail")


@_attrs_define
class SessionDetail:
    """A session with its tracks."""

    duration_seconds: int
    """ Measured to `left_at`, or to now while open. """
    id: str
    """ The id of a session: one join of one participant. """
    joined_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    namespaced_room: str
    """ The name of a room on the media plane: project id, dot, room name. """
    participant_identity: str
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    participant_sid: str
    """ The id that the media plane gives to one join of a participant. """
    role: None | str
    room: str
    """ The name of a room, which a project uses once. """
    track_count: int
    """ Tracks published during the session. """
    tracks: list[SessionTrack]
    """ In order of start. """
    left_at: datetime.datetime | Unset = UNSET
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        duration_seconds = self.duration_seconds

        id = self.id

        joined_at = self.joined_at.isoformat()

        namespaced_room = self.namespaced_room

        participant_identity = self.participant_identity

        participant_sid = self.participant_sid

        role: None | str
        role = self.role

        room = self.room

        track_count = self.track_count

        tracks = []
        for tracks_item_data in self.tracks:
            tracks_item = tracks_item_data.to_dict()
            tracks.append(tracks_item)

        left_at: str | Unset = UNSET
        if not isinstance(self.left_at, Unset):
            left_at = self.left_at.isoformat()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "duration_seconds": duration_seconds,
                "id": id,
                "joined_at": joined_at,
                "namespaced_room": namespaced_room,
                "participant_identity": participant_identity,
                "participant_sid": participant_sid,
                "role": role,
                "room": room,
                "track_count": track_count,
                "tracks": tracks,
            }
        )
        if left_at is not UNSET:
            field_dict["left_at"] = left_at

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.session_track import SessionTrack  # noqa: PLC0415

        d = dict(src_dict)
        duration_seconds = d.pop("duration_seconds")

        id = d.pop("id")

        joined_at = datetime.datetime.fromisoformat(d.pop("joined_at"))

        namespaced_room = d.pop("namespaced_room")

        participant_identity = d.pop("participant_identity")

        participant_sid = d.pop("participant_sid")

        def _parse_role(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        role = _parse_role(d.pop("role"))

        room = d.pop("room")

        track_count = d.pop("track_count")

        tracks = []
        _tracks = d.pop("tracks")
        for tracks_item_data in _tracks:
            tracks_item = SessionTrack.from_dict(tracks_item_data)

            tracks.append(tracks_item)

        _left_at = d.pop("left_at", UNSET)
        left_at: datetime.datetime | Unset
        if isinstance(_left_at, Unset):
            left_at = UNSET
        else:
            left_at = datetime.datetime.fromisoformat(_left_at)

        session_detail = cls(
            duration_seconds=duration_seconds,
            id=id,
            joined_at=joined_at,
            namespaced_room=namespaced_room,
            participant_identity=participant_identity,
            participant_sid=participant_sid,
            role=role,
            room=room,
            track_count=track_count,
            tracks=tracks,
            left_at=left_at,
        )

        session_detail.additional_properties = d
        return session_detail

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
