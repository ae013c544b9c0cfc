from typing import Any

import httpx

from ...._paths import segment
from ...models.broadcast import Broadcast
from ...models.start_broadcast import StartBroadcast
from ...types import UNSET, Unset


def request(
    name: str,
    *,
    body: StartBroadcast,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/rooms/{name}/broadcasts".format(
            name=segment("name", name),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Broadcast:
    response_201 = Broadcast.from_dict(response.json())

    return response_201
