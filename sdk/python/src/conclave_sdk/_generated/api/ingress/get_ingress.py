from typing import Any
from urllib.parse import quote

import httpx

from ...models.ingress import Ingress


def request(
    ingress_id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/ingress/{ingress_id}".format(
            ingress_id=quote(str(ingress_id), safe=""),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Ingress:
    response_200 = Ingress.from_dict(response.json())

    return response_200
