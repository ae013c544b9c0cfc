from typing import Any

import httpx

from ...._paths import segment
from ...models.destination import Destination
from ...models.update_destination import UpdateDestination


def request(
    id: str,
    name: str,
    *,
    body: UpdateDestination,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}

    _kwargs: dict[str, Any] = {
        "method": "patch",
        "url": "/v1/templates/{id}/destinations/{name}".format(
            id=segment("id", id),
            name=segment("name", name),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Destination:
    response_200 = Destination.from_dict(response.json())

    return response_200
