from typing import Any
from urllib.parse import quote

import httpx

from ...models.role import Role


def request(
    id: str,
    name: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/templates/{id}/roles/{name}".format(
            id=quote(str(id), safe=""),
            name=quote(str(name), safe=""),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Role:
    response_200 = Role.from_dict(response.json())

    return response_200
