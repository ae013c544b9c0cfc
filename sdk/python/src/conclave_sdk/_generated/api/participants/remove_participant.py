from typing import Any

from ...._paths import segment


def request(
    name: str,
    identity: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/rooms/{name}/participants/{identity}".format(
            name=segment("name", name),
            identity=segment("identity", identity),
        ),
    }

    return _kwargs
