import datetime
from typing import Any

import httpx

from ...._paths import segment
from ...models.session_page import SessionPage
from ...types import UNSET, Unset


def request(
    name: str,
    *,
    identity: str | Unset = UNSET,
    role: str | Unset = UNSET,
    active: bool | Unset = UNSET,
    after: datetime.datetime | Unset = UNSET,
    before: datetime.datetime | Unset = UNSET,
    limit: int | Unset = 50,
    offset: int | Unset = 0,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["identity"] = identity

    params["role"] = role

    params["active"] = active

    json_after: str | Unset = UNSET
    if not isinstance(after, Unset):
        json_after = after.isoformat()
    params["after"] = json_after

    json_before: str | Unset = UNSET
    if not isinstance(before, Unset):
        json_before = before.isoformat()
    params["before"] = json_before

    params["limit"] = limit

    params["offset"] = offset

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/rooms/{name}/sessions".format(
            name=segment("name", name),
        ),
        "params": params,
    }

    return _kwargs


def parse(response: httpx.Response) -> SessionPage:
    response_200 = SessionPage.from_dict(response.json())

    return response_200
