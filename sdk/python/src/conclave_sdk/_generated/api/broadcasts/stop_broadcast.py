from typing import Any

import httpx

from ...._paths import segment
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
            egress_id=segment("egress_id", egress_id),
        ),
    }

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Broadcast:
    response_200 = Broadcast.from_dict(response.json())

    return response_200
