from typing import Any

import httpx

from ...._paths import segment
from ...models.broadcast import Broadcast


def request(
    egress_id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/broadcasts/{egress_id}".format(
            egress_id=segment("egress_id", egress_id),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Broadcast:
    response_200 = Broadcast.from_dict(response.json())

    return response_200
