from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="RoleSubscribe")


@_attrs_define
class RoleSubscribe:
    """The media that a role receives."""

    max_kbps: int | None
    to_roles: list[str] | None
    """ Roles whose media is received; null is every role, an empty list none. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        max_kbps: int | None
        max_kbps = self.max_kbps

        to_roles: list[str] | None
        if isinstance(self.to_roles, list):
            to_roles = self.to_roles

        else:
            to_roles = self.to_roles

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "max_kbps": max_kbps,
                "to_roles": to_roles,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_max_kbps(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        max_kbps = _parse_max_kbps(d.pop("max_kbps"))

        def _parse_to_roles(data: object) -> list[str] | None:
            if data is None:
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                to_roles_type_0 = cast(list[str], data)

                return to_roles_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[str] | None, data)

        to_roles = _parse_to_roles(d.pop("to_roles"))

        role_subscribe = cls(
            max_kbps=max_kbps,
            to_roles=to_roles,
        )

        role_subscribe.additional_properties = d
        return role_subscribe

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
