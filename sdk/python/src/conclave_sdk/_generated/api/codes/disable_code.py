from typing import Any
from urllib.parse import quote


def request(
    code: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/codes/{code}".format(
            code=quote(str(code), safe=""),
        ),
    }

    return _kwargs
