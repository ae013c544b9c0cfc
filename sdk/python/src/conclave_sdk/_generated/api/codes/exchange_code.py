from typing import Any

import httpx

from ...._paths import segment
from ...models.exchange_code import ExchangeCode
from ...models.token import Token
from ...types import UNSET, Unset


def request(
    code: str,
    *,
    body: ExchangeCode | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/codes/{code}/exchange".format(
            code=segment("code", code),
        ),
    }

    if not isinstance(body, Unset):
        _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Token:
    response_201 = Token.from_dict(response.json())

    return response_201
