from typing import Any

import httpx

from ...._paths import segment
from ...models.participant import Participant


def request(
    name: str,
    identity: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/rooms/{name}/participants/{identity}".format(
            name=segment("name", name),
            identity=segment("identity", identity),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Participant:
    response_200 = Participant.from_dict(response.json())

    return response_200
