from typing import Any

import httpx

from ...._paths import segment
from ...models.room_code_page import RoomCodePage
from ...types import UNSET, Unset


def request(
    name: str,
    *,
    limit: int | Unset = 50,
    offset: int | Unset = 0,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["offset"] = offset

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/rooms/{name}/codes".format(
            name=segment("name", name),
        ),
        "params": params,
    }

    return _kwargs


def parse(response: httpx.Response) -> RoomCodePage:
    response_200 = RoomCodePage.from_dict(response.json())

    return response_200
