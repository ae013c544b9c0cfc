from typing import Any

import httpx

from ...models.ingress_page import IngressPage
from ...models.ingress_status import IngressStatus
from ...models.input_type import InputType
from ...types import UNSET, Unset


def request(
    *,
    room: str | Unset = UNSET,
    status: IngressStatus | Unset = UNSET,
    input_type: InputType | Unset = UNSET,
    limit: int | Unset = 50,
    offset: int | Unset = 0,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["room"] = room

    json_status: str | Unset = UNSET
    if not isinstance(status, Unset):
        json_status = status

    params["status"] = json_status

    json_input_type: str | Unset = UNSET
    if not isinstance(input_type, Unset):
        json_input_type = input_type

    params["input_type"] = json_input_type

    params["limit"] = limit

    params["offset"] = offset

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/ingress",
        "params": params,
    }

    return _kwargs


def parse(response: httpx.Response) -> IngressPage:
    response_200 = IngressPage.from_dict(response.json())

    return response_200
