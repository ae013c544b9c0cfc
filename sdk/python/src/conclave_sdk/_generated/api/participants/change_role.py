from typing import Any
from urllib.parse import quote

import httpx

from ...models.change_role import ChangeRole
from ...models.role_change_result import RoleChangeResult
from ...types import UNSET, Unset


def request(
    name: str,
    identity: str,
    *,
    body: ChangeRole,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/rooms/{name}/participants/{identity}/role".format(
            name=quote(str(name), safe=""),
            identity=quote(str(identity), safe=""),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> RoleChangeResult:
    response_200 = RoleChangeResult.from_dict(response.json())

    return response_200
