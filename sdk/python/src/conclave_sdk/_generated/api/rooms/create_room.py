from typing import Any

import httpx

from ...models.create_room import CreateRoom
from ...models.room import Room
from ...types import UNSET, Unset


def request(
    *,
    body: CreateRoom,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/rooms",
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Room:
    response_201 = Room.from_dict(response.json())

    return response_201
