from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.ingress import Ingress


T = TypeVar("T", bound="IngressPage")


@_attrs_define
class IngressPage:
    """A page of a list."""

    has_more: bool
    ingresses: list[Ingress]
    limit: int
    offset: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        has_more = self.has_more

        ingresses = []
        for ingresses_item_data in self.ingresses:
            ingresses_item = ingresses_item_data.to_dict()
            ingresses.append(ingresses_item)

        limit = self.limit

        offset = self.offset

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "has_more": has_more,
                "ingresses": ingresses,
                "limit": limit,
                "offset": offset,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.ingress import Ingress  # noqa: PLC0415

        d = dict(src_dict)
        has_more = d.pop("has_more")

        ingresses = []
        _ingresses = d.pop("ingresses")
        for ingresses_item_data in _ingresses:
            ingresses_item = Ingress.from_dict(ingresses_item_data)

            ingresses.append(ingresses_item)

        limit = d.pop("limit")

        offset = d.pop("offset")

        ingress_page = cls(
            has_more=has_more,
            ingresses=ingresses,
            limit=limit,
            offset=offset,
        )

        ingress_page.additional_properties = d
        return ingress_page

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
