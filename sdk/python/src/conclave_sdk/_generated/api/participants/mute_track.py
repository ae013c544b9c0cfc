from typing import Any

import httpx

from ...._paths import segment
from ...models.mute_track import MuteTrack
from ...models.muted_track import MutedTrack
from ...types import UNSET, Unset


def request(
    name: str,
    identity: str,
    *,
    body: MuteTrack,
    idempotency_key: str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/rooms/{name}/participants/{identity}/mute".format(
            name=segment("name", name),
            identity=segment("identity", identity),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> MutedTrack:
    response_200 = MutedTrack.from_dict(response.json())

    return response_200
