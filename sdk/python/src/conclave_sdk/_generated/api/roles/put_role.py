from typing import Any
from urllib.parse import quote

import httpx

from ...models.role import Role
from ...models.role_input import RoleInput


def request(
    id: str,
    name: str,
    *,
    body: RoleInput,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}

    _kwargs: dict[str, Any] = {
        "method": "put",
        "url": "/v1/templates/{id}/roles/{name}".format(
            id=quote(str(id), safe=""),
            name=quote(str(name), safe=""),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Role:
    response_200 = Role.from_dict(response.json())

    return response_200
