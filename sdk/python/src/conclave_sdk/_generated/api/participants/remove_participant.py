from typing import Any
from urllib.parse import quote


def request(
    name: str,
    identity: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/rooms/{name}/participants/{identity}".format(
            name=quote(str(name), safe=""),
            identity=quote(str(identity), safe=""),
        ),
    }

    return _kwargs
