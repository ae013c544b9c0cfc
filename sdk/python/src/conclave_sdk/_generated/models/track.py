from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.track_kind import TrackKind, check_track_kind
from ..models.track_source import TrackSource, check_track_source
from ..types import UNSET, Unset

T = TypeVar("T", bound="Track")


@_attrs_define
class Track:
    """A published track."""

    kind: TrackKind
    """ The media type of a track. """
    muted: bool
    """ Whether the publisher or a moderator has muted it. """
    sid: str
    """ The media plane's id of the track. """
    source: TrackSource
    """ The source of a track. """
    height: int | Unset = UNSET
    """ Height in pixels; absent for audio. """
    mime_type: str | Unset = UNSET
    """ The MIME type of the codec. """
    name: str | Unset = UNSET
    """ The name that the publisher gave it, if any. """
    simulcast: bool | Unset = UNSET
    """ Whether video is sent in several qualities; absent for audio. """
    width: int | Unset = UNSET
    """ Width in pixels; absent for audio. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        kind: str = self.kind

        muted = self.muted

        sid = self.sid

        source: str = self.source

        height = self.height

        mime_type = self.mime_type

        name = self.name

        simulcast = self.simulcast

        width = self.width

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "kind": kind,
                "muted": muted,
                "sid": sid,
                "source": source,
            }
        )
        if height is not UNSET:
            field_dict["height"] = height
        if mime_type is not UNSET:
            field_dict["mime_type"] = mime_type
        if name is not UNSET:
            field_dict["name"] = name
        if simulcast is not UNSET:
            field_dict["simulcast"] = simulcast
        if width is not UNSET:
            field_dict["width"] = width

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        kind = check_track_kind(d.pop("kind"))

        muted = d.pop("muted")

        sid = d.pop("sid")

        source = check_track_source(d.pop("source"))

        height = d.pop("height", UNSET)

        mime_type = d.pop("mime_type", UNSET)

        name = d.pop("name", UNSET)

        simulcast = d.pop("simulcast", UNSET)

        width = d.pop("width", UNSET)

        track = cls(
            kind=kind,
            muted=muted,
            sid=sid,
            source=source,
            height=height,
            mime_type=mime_type,
            name=name,
            simulcast=simulcast,
            width=width,
        )

        track.additional_properties = d
        return track

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
