from typing import Any

import httpx

from ...._paths import segment
from ...models.destination_list import DestinationList


def request(
    id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/templates/{id}/destinations".format(
            id=segment("id", id),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> DestinationList:
    response_200 = DestinationList.from_dict(response.json())

    return response_200
