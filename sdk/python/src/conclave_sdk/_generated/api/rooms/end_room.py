from typing import Any
from urllib.parse import quote


def request(
    name: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/rooms/{name}".format(
            name=quote(str(name), safe=""),
        ),
    }

    return _kwargs
