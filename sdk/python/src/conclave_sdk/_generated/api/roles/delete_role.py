from typing import Any

from ...._paths import segment


def request(
    id: str,
    name: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/templates/{id}/roles/{name}".format(
            id=segment("id", id),
            name=segment("name", name),
        ),
    }

    return _kwargs
