from typing import Any

import httpx

from ...._paths import segment
from ...models.room import Room


def request(
    name: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/rooms/{name}".format(
            name=segment("name", name),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Room:
    response_200 = Room.from_dict(response.json())

    return response_200
