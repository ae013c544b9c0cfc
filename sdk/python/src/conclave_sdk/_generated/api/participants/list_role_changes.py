from typing import Any

import httpx

from ...._paths import segment
from ...models.role_change_page import RoleChangePage
from ...types import UNSET, Unset


def request(
    name: str,
    *,
    identity: str | Unset = UNSET,
    limit: int | Unset = 50,
    offset: int | Unset = 0,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["identity"] = identity

    params["limit"] = limit

    params["offset"] = offset

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/rooms/{name}/role-changes".format(
            name=segment("name", name),
        ),
        "params": params,
    }

    return _kwargs


def parse(response: httpx.Response) -> RoleChangePage:
    response_200 = RoleChangePage.from_dict(response.json())

    return response_200
