from typing import Any
from urllib.parse import quote

import httpx

from ...models.participant import Participant


def request(
    name: str,
    identity: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/rooms/{name}/participants/{identity}".format(
            name=quote(str(name), safe=""),
            identity=quote(str(identity), safe=""),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Participant:
    response_200 = Participant.from_dict(response.json())

    return response_200
