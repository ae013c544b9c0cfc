from typing import Any

import httpx

from ...models.delivery_status import DeliveryStatus
from ...models.event_type import EventType
from ...models.webhook_delivery_page import WebhookDeliveryPage
from ...types import UNSET, Unset


def request(
    *,
    status: DeliveryStatus | Unset = UNSET,
    event_type: EventType | Unset = UNSET,
    endpoint_id: str | Unset = UNSET,
    limit: int | Unset = 50,
    offset: int | Unset = 0,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    json_status: str | Unset = UNSET
    if not isinstance(status, Unset):
        json_status = status

    params["status"] = json_status

    json_event_type: str | Unset = UNSET
    if not isinstance(event_type, Unset):
        json_event_type = event_type

    params["event_type"] = json_event_type

    params["endpoint_id"] = endpoint_id

    params["limit"] = limit

    params["offset"] = offset

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/webhook-deliveries",
        "params": params,
    }

    return _kwargs


def parse(response: httpx.Response) -> WebhookDeliveryPage:
    response_200 = WebhookDeliveryPage.from_dict(response.json())

    return response_200
