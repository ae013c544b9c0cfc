from typing import Any

import httpx

from ...._paths import segment
from ...models.session_detail import SessionDetail


def request(
    id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/sessions/{id}".format(
            id=segment("id", id),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> SessionDetail:
    response_200 = SessionDetail.from_dict(response.json())

    return response_200
