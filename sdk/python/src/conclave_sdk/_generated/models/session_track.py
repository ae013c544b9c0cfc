from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.track_kind import TrackKind, check_track_kind
from ..models.track_source import TrackSource, check_track_source
from ..types import UNSET, Unset

T = TypeVar("T", bound="SessionTrack")


@_attrs_define
class SessionTrack:
    """A track published during a session."""

    kind: TrackKind
    """ The media type of a track. """
    source: TrackSource
    """ The source of a track. """
    started_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    track_sid: str
    """ The id that the media plane gives to one published track. """
    ended_at: datetime.datetime | Unset = UNSET
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        kind: str = self.kind

        source: str = self.source

        started_at = self.started_at.isoformat()

        track_sid = self.track_sid

        ended_at: str | Unset = UNSET
        if not isinstance(self.ended_at, Unset):
            ended_at = self.ended_at.isoformat()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "kind": kind,
                "source": source,
                "started_at": started_at,
                "track_sid": track_sid,
            }
        )
        if ended_at is not UNSET:
            field_dict["ended_at"] = ended_at

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        kind = check_track_kind(d.pop("kind"))

        source = check_track_source(d.pop("source"))

        started_at = datetime.datetime.fromisoformat(d.pop("started_at"))

        track_sid = d.pop("track_sid")

        _ended_at = d.pop("ended_at", UNSET)
        ended_at: datetime.datetime | Unset
        if isinstance(_ended_at, Unset):
            ended_at = UNSET
        else:
            ended_at = datetime.datetime.fromisoformat(_ended_at)

        session_track = cls(
            kind=kind,
            source=source,
            started_at=started_at,
            track_sid=track_sid,
            ended_at=ended_at,
        )

        session_track.additional_properties = d
        return session_track

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
