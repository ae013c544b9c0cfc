from typing import Any
from urllib.parse import quote

import httpx

from ...models.destination import Destination


def request(
    id: str,
    name: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/templates/{id}/destinations/{name}".format(
            id=quote(str(id), safe=""),
            name=quote(str(name), safe=""),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Destination:
    response_200 = Destination.from_dict(response.json())

    return response_200
