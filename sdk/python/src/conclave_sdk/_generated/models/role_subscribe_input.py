from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="RoleSubscribeInput")


@_attrs_define
class RoleSubscribeInput:
    """RoleSubscribe as a caller sends it."""

    max_kbps: int | None | Unset = UNSET
    to_roles: list[str] | None | Unset = UNSET
    """ Roles whose media is received; default null, every role. """

    def to_dict(self) -> dict[str, Any]:
        max_kbps: int | None | Unset
        if isinstance(self.max_kbps, Unset):
            max_kbps = UNSET
        else:
            max_kbps = self.max_kbps

        to_roles: list[str] | None | Unset
        if isinstance(self.to_roles, Unset):
            to_roles = UNSET
        elif isinstance(self.to_roles, list):
            to_roles = self.to_roles

        else:
            to_roles = self.to_roles

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if max_kbps is not UNSET:
            field_dict["max_kbps"] = max_kbps
        if to_roles is not UNSET:
            field_dict["to_roles"] = to_roles

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_max_kbps(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        max_kbps = _parse_max_kbps(d.pop("max_kbps", UNSET))

        def _parse_to_roles(data: object) -> list[str] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                to_roles_type_0 = cast(list[str], data)

                return to_roles_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[str] | None | Unset, data)

        to_roles = _parse_to_roles(d.pop("to_roles", UNSET))

        role_subscribe_input = cls(
            max_kbps=max_kbps,
            to_roles=to_roles,
        )

        return role_subscribe_input
