from typing import Any
from urllib.parse import quote


def request(
    ingress_id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/ingress/{ingress_id}".format(
            ingress_id=quote(str(ingress_id), safe=""),
        ),
    }

    return _kwargs
