from typing import Any

import httpx

from ...._paths import segment
from ...models.create_code import CreateCode
from ...models.room_code import RoomCode
from ...types import UNSET, Unset


def request(
    name: str,
    *,
    body: CreateCode,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/rooms/{name}/codes".format(
            name=segment("name", name),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> RoomCode:
    response_201 = RoomCode.from_dict(response.json())

    return response_201
