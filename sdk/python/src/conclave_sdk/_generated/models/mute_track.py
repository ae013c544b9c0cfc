from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="MuteTrack")


@_attrs_define
class MuteTrack:
    """A track to mute or unmute."""

    muted: bool
    """ true mutes, false unmutes. """
    track_sid: str
    """ The id that the media plane gives to one published track. """

    def to_dict(self) -> dict[str, Any]:
        muted = self.muted

        track_sid = self.track_sid

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "muted": muted,
                "track_sid": track_sid,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        muted = d.pop("muted")

        track_sid = d.pop("track_sid")

        mute_track = cls(
            muted=muted,
            track_sid=track_sid,
        )

        return mute_track
