from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.webhook_delivery import WebhookDelivery


T = TypeVar("T", bound="WebhookDeliveryPage")


@_attrs_define
class WebhookDeliveryPage:
    """A page of a list."""

    has_more: bool
    limit: int
    offset: int
    webhook_deliveries: list[WebhookDelivery]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        has_more = self.has_more

        limit = self.limit

        offset = self.offset

        webhook_deliveries = []
        for webhook_deliveries_item_data in self.webhook_deliveries:
            webhook_deliveries_item = webhook_deliveries_item_data.to_dict()
            webhook_deliveries.append(webhook_deliveries_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "has_more": has_more,
                "limit": limit,
                "offset": offset,
                "webhook_deliveries": webhook_deliveries,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.webhook_delivery import WebhookDelivery  # noqa: PLC0415

        d = dict(src_dict)
        has_more = d.pop("has_more")

        limit = d.pop("limit")

        offset = d.pop("offset")

        webhook_deliveries = []
        _webhook_deliveries = d.pop("webhook_deliveries")
        for webhook_deliveries_item_data in _webhook_deliveries:
            webhook_deliveries_item = WebhookDelivery.from_dict(webhook_deliveries_item_data)

            webhook_deliveries.append(webhook_deliveries_item)

        webhook_delivery_page = cls(
            has_more=has_more,
            limit=limit,
            offset=offset,
            webhook_deliveries=webhook_deliveries,
        )

        webhook_delivery_page.additional_properties = d
        return webhook_delivery_page

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
