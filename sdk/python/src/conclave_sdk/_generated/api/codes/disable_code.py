from typing import Any

from ...._paths import segment


def request(
    code: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/codes/{code}".format(
            code=segment("code", code),
        ),
    }

    return _kwargs
