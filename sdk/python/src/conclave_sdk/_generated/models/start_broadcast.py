from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.layout import Layout, check_layout
from ..types import UNSET, Unset

T = TypeVar("T", bound="StartBroadcast")


@_attrs_define
class StartBroadcast:
    """A broadcast to start."""

    audio_only: bool | Unset = UNSET
    """ Whether to send audio without video; default false. """
    destination: str | Unset = UNSET
    """ The name of a destination, unique in its template. """
    layout: Layout | Unset = UNSET
    """ The arrangement of the participants in a composite video of the room. """
    urls: list[str] | Unset = UNSET
    """ 1 to 8 `rtmp://` or `rtmps://` urls. Required unless `destination` is given, and not beside it. """

    def to_dict(self) -> dict[str, Any]:
        audio_only = self.audio_only

        destination = self.destination

        layout: str | Unset = UNSET
        if not isinstance(self.layout, Unset):
            layout = self.layout

        urls: list[str] | Unset = UNSET
        if not isinstance(self.urls, Unset):
            urls = self.urls

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if audio_only is not UNSET:
            field_dict["audio_only"] = audio_only
        if destination is not UNSET:
            field_dict["destination"] = destination
        if layout is not UNSET:
            field_dict["layout"] = layout
        if urls is not UNSET:
            field_dict["urls"] = urls

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        audio_only = d.pop("audio_only", UNSET)

        destination = d.pop("destination", UNSET)

        _layout = d.pop("layout", UNSET)
        layout: Layout | Unset
        if isinstance(_layout, Unset):
            layout = UNSET
        else:
            layout = check_layout(_layout)

        urls = cast(list[str], d.pop("urls", UNSET))

        start_broadcast = cls(
            audio_only=audio_only,
            destination=destination,
            layout=layout,
            urls=urls,
        )

        return start_broadcast
