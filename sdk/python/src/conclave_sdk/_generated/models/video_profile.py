from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.video_codec import VideoCodec, check_video_codec

T = TypeVar("T", bound="VideoProfile")


@_attrs_define
class VideoProfile:
    """The encoding of video."""

    codec: VideoCodec
    """ A video codec. """
    frame_rate: int
    height: int
    max_kbps: int
    width: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        codec: str = self.codec

        frame_rate = self.frame_rate

        height = self.height

        max_kbps = self.max_kbps

        width = self.width

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "codec": codec,
                "frame_rate": frame_rate,
                "height": height,
                "max_kbps": max_kbps,
                "width": width,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        codec = check_video_codec(d.pop("codec"))

        frame_rate = d.pop("frame_rate")

        height = d.pop("height")

        max_kbps = d.pop("max_kbps")

        width = d.pop("width")

        video_profile = cls(
            codec=codec,
            frame_rate=frame_rate,
            height=height,
            max_kbps=max_kbps,
            width=width,
        )

        video_profile.additional_properties = d
        return video_profile

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
