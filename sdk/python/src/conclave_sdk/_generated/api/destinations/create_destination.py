from typing import Any

import httpx

from ...._paths import segment
from ...models.create_recording_destination import CreateRecordingDestination
from ...models.create_rtmp_destination import CreateRtmpDestination
from ...models.destination import Destination
from ...types import UNSET, Unset


def request(
    id: str,
    *,
    body: CreateRecordingDestination | CreateRtmpDestination,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/templates/{id}/destinations".format(
            id=segment("id", id),
        ),
    }

    if isinstance(body, CreateRecordingDestination):
        _kwargs["json"] = body.to_dict()
    else:
        _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Destination:
    response_201 = Destination.from_dict(response.json())

    return response_201
