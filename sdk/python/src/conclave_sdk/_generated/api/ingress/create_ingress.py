from typing import Any

import httpx

from ...._paths import segment
from ...models.create_ingress import CreateIngress
from ...models.ingress_created import IngressCreated


def request(
    name: str,
    *,
    body: CreateIngress,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/rooms/{name}/ingress".format(
            name=segment("name", name),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> IngressCreated:
    response_201 = IngressCreated.from_dict(response.json())

    return response_201
