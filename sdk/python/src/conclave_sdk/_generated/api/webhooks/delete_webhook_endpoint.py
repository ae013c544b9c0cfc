from typing import Any

from ...._paths import segment


def request(
    id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/webhook-endpoints/{id}".format(
            id=segment("id", id),
        ),
    }

    return _kwargs
