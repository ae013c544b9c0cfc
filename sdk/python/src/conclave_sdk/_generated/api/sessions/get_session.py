from typing import Any
from urllib.parse import quote

import httpx

from ...models.session_detail import SessionDetail


def request(
    id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/sessions/{id}".format(
            id=quote(str(id), safe=""),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> SessionDetail:
    response_200 = SessionDetail.from_dict(response.json())

    return response_200
