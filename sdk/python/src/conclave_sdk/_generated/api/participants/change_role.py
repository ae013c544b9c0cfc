from typing import Any

import httpx

from ...._paths import segment
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
            name=segment("name", name),
            identity=segment("identity", identity),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> RoleChangeResult:
    response_200 = RoleChangeResult.from_dict(response.json())

    return response_200
