from typing import Any

import httpx

from ...._paths import segment
from ...models.data_sent import DataSent
from ...models.send_data import SendData
from ...types import UNSET, Unset


def request(
    name: str,
    *,
    body: SendData,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/rooms/{name}/send-data".format(
            name=segment("name", name),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> DataSent:
    response_200 = DataSent.from_dict(response.json())

    return response_200
