from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

T = TypeVar("T", bound="ShownRtmpDestinationConfig")


@_attrs_define
class ShownRtmpDestinationConfig:
    """Where broadcasts go, without the stream keys."""

    urls: list[str]
    """ The urls, each stream key replaced by `REDACTED`. """

    def to_dict(self) -> dict[str, Any]:
        urls = self.urls

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "urls": urls,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        urls = cast(list[str], d.pop("urls"))

        shown_rtmp_destination_config = cls(
            urls=urls,
        )

        return shown_rtmp_destination_config
