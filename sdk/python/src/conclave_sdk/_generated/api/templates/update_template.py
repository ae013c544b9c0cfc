from typing import Any

import httpx

from ...._paths import segment
from ...models.template import Template
from ...models.update_template import UpdateTemplate


def request(
    id: str,
    *,
    body: UpdateTemplate,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}

    _kwargs: dict[str, Any] = {
        "method": "patch",
        "url": "/v1/templates/{id}".format(
            id=segment("id", id),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> Template:
    response_200 = Template.from_dict(response.json())

    return response_200
