from typing import Any

import httpx

from ...models.create_webhook_endpoint import CreateWebhookEndpoint
from ...models.webhook_endpoint_created import WebhookEndpointCreated
from ...types import UNSET, Unset


def request(
    *,
    body: CreateWebhookEndpoint,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/webhook-endpoints",
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> WebhookEndpointCreated:
    response_201 = WebhookEndpointCreated.from_dict(response.json())

    return response_201
