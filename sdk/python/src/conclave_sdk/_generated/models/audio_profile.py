from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.audio_codec import AudioCodec, check_audio_codec

T = TypeVar("T", bound="AudioProfile")


@_attrs_define
class AudioProfile:
    """The encoding of audio."""

    codec: AudioCodec
    """ An audio codec. """
    max_kbps: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        codec: str = self.codec

        max_kbps = self.max_kbps

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "codec": codec,
                "max_kbps": max_kbps,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        codec = check_audio_codec(d.pop("codec"))

        max_kbps = d.pop("max_kbps")

        audio_profile = cls(
            codec=codec,
            max_kbps=max_kbps,
        )

        audio_profile.additional_properties = d
        return audio_profile

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
