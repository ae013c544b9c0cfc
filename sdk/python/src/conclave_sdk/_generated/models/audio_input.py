from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.audio_codec import AudioCodec, check_audio_codec
from ..types import UNSET, Unset

T = TypeVar("T", bound="AudioInput")


@_attrs_define
class AudioInput:
    """AudioProfile as a caller sends it."""

    codec: AudioCodec | Unset = UNSET
    """ An audio codec. """
    max_kbps: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        codec: str | Unset = UNSET
        if not isinstance(self.codec, Unset):
            codec = self.codec

        max_kbps = self.max_kbps

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if codec is not UNSET:
            field_dict["codec"] = codec
        if max_kbps is not UNSET:
            field_dict["max_kbps"] = max_kbps

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        _codec = d.pop("codec", UNSET)
        codec: AudioCodec | Unset
        if isinstance(_codec, Unset):
            codec = UNSET
        else:
            codec = check_audio_codec(_codec)

        max_kbps = d.pop("max_kbps", UNSET)

        audio_input = cls(
            codec=codec,
            max_kbps=max_kbps,
        )

        return audio_input
