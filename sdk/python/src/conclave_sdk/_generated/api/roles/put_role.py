from typing import Any

import httpx

from ...._paths import segment
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
            id=segment("id", id),
            name=segment("name", name),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Role:
    response_200 = Role.from_dict(response.json())

    return response_200
