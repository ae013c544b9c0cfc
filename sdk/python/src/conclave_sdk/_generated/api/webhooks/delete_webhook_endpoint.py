from typing import Any
from urllib.parse import quote


def request(
    id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/webhook-endpoints/{id}".format(
            id=quote(str(id), safe=""),
        ),
    }

    return _kwargs
