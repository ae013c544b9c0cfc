import datetime
from typing import Any

import httpx

from ...models.egress_status import EgressStatus
from ...models.recording_page import RecordingPage
from ...types import UNSET, Unset


def request(
    *,
    room: str | Unset = UNSET,
    status: EgressStatus | Unset = UNSET,
    after: datetime.datetime | Unset = UNSET,
    before: datetime.datetime | Unset = UNSET,
    limit: int | Unset = 50,
    offset: int | Unset = 0,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    params["room"] = room

    json_status: str | Unset = UNSET
    if not isinstance(status, Unset):
        json_status = status

    params["status"] = json_status

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
        "url": "/v1/recordings",
        "params": params,
    }

    return _kwargs


def parse(response: httpx.Response) -> RecordingPage:
    response_200 = RecordingPage.from_dict(response.json())

    return response_200
