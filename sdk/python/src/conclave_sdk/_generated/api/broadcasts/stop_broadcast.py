from typing import Any
from urllib.parse import quote

import httpx

from ...models.broadcast import Broadcast
from ...types import UNSET, Unset


def request(
    egress_id: str,
    *,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/broadcasts/{egress_id}/stop".format(
            egress_id=quote(str(egress_id), safe=""),
        ),
    }

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Broadcast:
    response_200 = Broadcast.from_dict(response.json())

    return response_200
