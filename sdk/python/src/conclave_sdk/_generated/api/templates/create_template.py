from typing import Any

import httpx

from ...models.create_template import CreateTemplate
from ...models.template import Template
from ...types import UNSET, Unset


def request(
    *,
    body: CreateTemplate,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/templates",
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Template:
    response_201 = Template.from_dict(response.json())

    return response_201
