from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Permissions")


@_attrs_define
class Permissions:
    """Plain grants; each defaults to true."""

    can_publish: bool | None | Unset = UNSET
    can_publish_data: bool | None | Unset = UNSET
    can_subscribe: bool | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        can_publish: bool | None | Unset
        if isinstance(self.can_publish, Unset):
            can_publish = UNSET
        else:
            can_publish = self.can_publish

        can_publish_data: bool | None | Unset
        if isinstance(self.can_publish_data, Unset):
            can_publish_data = UNSET
        else:
            can_publish_data = self.can_publish_data

        can_subscribe: bool | None | Unset
        if isinstance(self.can_subscribe, Unset):
            can_subscribe = UNSET
        else:
            can_subscribe = self.can_subscribe

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if can_publish is not UNSET:
            field_dict["can_publish"] = can_publish
        if can_publish_data is not UNSET:
            field_dict["can_publish_data"] = can_publish_data
        if can_subscribe is not UNSET:
            field_dict["can_subscribe"] = can_subscribe

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_can_publish(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        can_publish = _parse_can_publish(d.pop("can_publish", UNSET))

        def _parse_can_publish_data(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        can_publish_data = _parse_can_publish_data(d.pop("can_publish_data", UNSET))

        def _parse_can_subscribe(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        can_subscribe = _parse_can_subscribe(d.pop("can_subscribe", UNSET))

        permissions = cls(
            can_publish=can_publish,
            can_publish_data=can_publish_data,
            can_subscribe=can_subscribe,
        )

        return permissions
