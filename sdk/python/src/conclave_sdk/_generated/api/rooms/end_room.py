from typing import Any

from ...._paths import segment


def request(
    name: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/rooms/{name}".format(
            name=segment("name", name),
        ),
    }

    return _kwargs
