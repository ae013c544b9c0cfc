from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.role_change import RoleChange


T = TypeVar("T", bound="RoleChangePage")


@_attrs_define
class RoleChangePage:
    """A page of a list."""

    has_more: bool
    limit: int
    offset: int
    role_changes: list[RoleChange]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        has_more = self.has_more

        limit = self.limit

        offset = self.offset

        role_changes = []
        for role_changes_item_data in self.role_changes:
            role_changes_item = role_changes_item_data.to_dict()
            role_changes.append(role_changes_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "has_more": has_more,
                "limit": limit,
                "offset": offset,
                "role_changes": role_changes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.role_change import RoleChange  # noqa: PLC0415

        d = dict(src_dict)
        has_more = d.pop("has_more")

        limit = d.pop("limit")

        offset = d.pop("offset")

        role_changes = []
        _role_changes = d.pop("role_changes")
        for role_changes_item_data in _role_changes:
            role_changes_item = RoleChange.from_dict(role_changes_item_data)

            role_changes.append(role_changes_item)

        role_change_page = cls(
            has_more=has_more,
            limit=limit,
            offset=offset,
            role_changes=role_changes,
        )

        role_change_page.additional_properties = d
        return role_change_page

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
