from typing import Any

import httpx

from ...._paths import segment
from ...models.ingress import Ingress


def request(
    ingress_id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/ingress/{ingress_id}".format(
            ingress_id=segment("ingress_id", ingress_id),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> Ingress:
    response_200 = Ingress.from_dict(response.json())

    return response_200
