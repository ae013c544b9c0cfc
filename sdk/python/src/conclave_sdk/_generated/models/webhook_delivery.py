from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.delivery_status import DeliveryStatus, check_delivery_status
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.webhook_delivery_payload import WebhookDeliveryPayload


T = TypeVar("T", bound="WebhookDelivery")


@_attrs_define
class WebhookDelivery:
    """One event on its way to one webhook endpoint."""

    attempts: int
    """ Attempts to post it. """
    created_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    endpoint_id: str
    """ The id of a webhook endpoint. """
    endpoint_url: str
    event_type: str
    id: str
    """ The id of a webhook delivery: one event for one endpoint. """
    last_error: str
    """ Transport or status error of the latest attempt. """
    payload: WebhookDeliveryPayload
    """ The exact body posted, byte for byte what the signature covers. """
    response_status: int | None
    """ Null if the request never completed. """
    status: DeliveryStatus
    """ The status of a delivery. A retry makes a failed delivery pending again. """
    delivered_at: datetime.datetime | Unset = UNSET
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    next_attempt_at: datetime.datetime | Unset = UNSET
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        attempts = self.attempts

        created_at = self.created_at.isoformat()

        endpoint_id = self.endpoint_id

        endpoint_url = self.endpoint_url

        event_type = self.event_type

        id = self.id

        last_error = self.last_error

        payload = self.payload.to_dict()

        response_status: int | None
        response_status = self.response_status

        status: str = self.status

        delivered_at: str | Unset = UNSET
        if not isinstance(self.delivered_at, Unset):
            delivered_at = self.delivered_at.isoformat()

        next_attempt_at: str | Unset = UNSET
        if not isinstance(self.next_attempt_at, Unset):
            next_attempt_at = self.next_attempt_at.isoformat()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "attempts": attempts,
                "created_at": created_at,
                "endpoint_id": endpoint_id,
                "endpoint_url": endpoint_url,
                "event_type": event_type,
                "id": id,
                "last_error": last_error,
                "payload": payload,
                "response_status": response_status,
                "status": status,
            }
        )
        if delivered_at is not UNSET:
            field_dict["delivered_at"] = delivered_at
        if next_attempt_at is not UNSET:
            field_dict["next_attempt_at"] = next_attempt_at

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.webhook_delivery_payload import WebhookDeliveryPayload  # noqa: PLC0415

        d = dict(src_dict)
        attempts = d.pop("attempts")

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        endpoint_id = d.pop("endpoint_id")

        endpoint_url = d.pop("endpoint_url")

        event_type = d.pop("event_type")

        id = d.pop("id")

        last_error = d.pop("last_error")

        payload = WebhookDeliveryPayload.from_dict(d.pop("payload"))

        def _parse_response_status(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        response_status = _parse_response_status(d.pop("response_status"))

        status = check_delivery_status(d.pop("status"))

        _delivered_at = d.pop("delivered_at", UNSET)
        delivered_at: datetime.datetime | Unset
        if isinstance(_delivered_at, Unset):
            delivered_at = UNSET
        else:
            delivered_at = datetime.datetime.fromisoformat(_delivered_at)

        _next_attempt_at = d.pop("next_attempt_at", UNSET)
        next_attempt_at: datetime.datetime | Unset
        if isinstance(_next_attempt_at, Unset):
            next_attempt_at = UNSET
        else:
            next_attempt_at = datetime.datetime.fromisoformat(_next_attempt_at)

        webhook_delivery = cls(
            attempts=attempts,
            created_at=created_at,
            endpoint_id=endpoint_id,
            endpoint_url=endpoint_url,
            event_type=event_type,
            id=id,
            last_error=last_error,
            payload=payload,
            response_status=response_status,
            status=status,
            delivered_at=delivered_at,
            next_attempt_at=next_attempt_at,
        )

        webhook_delivery.additional_properties = d
        return webhook_delivery

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
