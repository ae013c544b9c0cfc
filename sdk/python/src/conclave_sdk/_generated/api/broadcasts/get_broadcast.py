from typing import Any
from urllib.parse import quote

import httpx

from ...models.broadcast import Broadcast


def request(
    egress_id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/broadcasts/{egress_id}".format(
            egress_id=quote(str(egress_id), safe=""),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Broadcast:
    response_200 = Broadcast.from_dict(response.json())

    return response_200
