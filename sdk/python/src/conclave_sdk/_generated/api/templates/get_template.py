from typing import Any

import httpx

from ...._paths import segment
from ...models.template import Template


def request(
    id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/templates/{id}".format(
            id=segment("id", id),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Template:
    response_200 = Template.from_dict(response.json())

    return response_200
