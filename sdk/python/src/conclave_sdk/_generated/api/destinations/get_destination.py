from typing import Any

import httpx

from ...._paths import segment
from ...models.destination import Destination


def request(
    id: str,
    name: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/templates/{id}/destinations/{name}".format(
            id=segment("id", id),
            name=segment("name", name),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Destination:
    response_200 = Destination.from_dict(response.json())

    return response_200
