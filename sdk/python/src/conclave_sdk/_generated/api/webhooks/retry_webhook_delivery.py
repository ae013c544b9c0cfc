from typing import Any

import httpx

from ...._paths import segment
from ...models.webhook_delivery import WebhookDelivery
from ...types import UNSET, Unset


def request(
    id: str,
    *,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/webhook-deliveries/{id}/retry".format(
            id=segment("id", id),
        ),
    }

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> WebhookDelivery:
    response_200 = WebhookDelivery.from_dict(response.json())

    return response_200
