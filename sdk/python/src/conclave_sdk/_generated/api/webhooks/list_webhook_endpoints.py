from typing import Any

import httpx

from ...models.webhook_endpoint_page import WebhookEndpointPage
from ...types import UNSET, Unset


def request(
    *,
    limit: int | Unset = 50,
    offset: int | Unset = 0,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["offset"] = offset

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/webhook-endpoints",
        "params": params,
    }

    return _kwargs


def parse(response: httpx.Response) -> WebhookEndpointPage:
    response_200 = WebhookEndpointPage.from_dict(response.json())

    return response_200
