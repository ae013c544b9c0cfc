from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.video_codec import VideoCodec, check_video_codec
from ..types import UNSET, Unset

T = TypeVar("T", bound="VideoInput")


@_attrs_define
class VideoInput:
    """VideoProfile as a caller sends it."""

    codec: VideoCodec | Unset = UNSET
    """ A video codec. """
    frame_rate: int | Unset = UNSET
    height: int | Unset = UNSET
    max_kbps: int | Unset = UNSET
    width: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        codec: str | Unset = UNSET
        if not isinstance(self.codec, Unset):
            codec = self.codec

        frame_rate = self.frame_rate

        height = self.height

        max_kbps = self.max_kbps

        width = self.width

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if codec is not UNSET:
            field_dict["codec"] = codec
        if frame_rate is not UNSET:
            field_dict["frame_rate"] = frame_rate
        if height is not UNSET:
            field_dict["height"] = height
        if max_kbps is not UNSET:
            field_dict["max_kbps"] = max_kbps
        if width is not UNSET:
            field_dict["width"] = width

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        _codec = d.pop("codec", UNSET)
        codec: VideoCodec | Unset
        if isinstance(_codec, Unset):
            codec = UNSET
        else:
            codec = check_video_codec(_codec)

        frame_rate = d.pop("frame_rate", UNSET)

        height = d.pop("height", UNSET)

        max_kbps = d.pop("max_kbps", UNSET)

        width = d.pop("width", UNSET)

        video_input = cls(
            codec=codec,
            frame_rate=frame_rate,
            height=height,
            max_kbps=max_kbps,
            width=width,
        )

        return video_input
