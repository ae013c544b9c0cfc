from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

T = TypeVar("T", bound="RtmpDestinationConfig")


@_attrs_define
class RtmpDestinationConfig:
    """Where broadcasts go. Each url reads back as `rtmp://host/app/REDACTED`."""

    urls: list[str]
    """ 1 to 8 `rtmp://` or `rtmps://` urls. """

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

        rtmp_destination_config = cls(
            urls=urls,
        )

        return rtmp_destination_config
