"""Links to the files of recordings on the server's disk."""

from typing import Any
from urllib.parse import quote

import httpx


def link_request(egress_id: str, expires_in_seconds: int) -> dict[str, Any]:
    """Returns the request for a link."""
    return {
        "method": "GET",
        "url": f"/files/recordings/{quote(egress_id, safe='')}/link",
        "params": {"expires_in_seconds": expires_in_seconds},
    }


def link_of(base_url: httpx.URL, response: httpx.Response) -> str:
    """Returns the link that a server has answered with, at the address under which this client knows the server."""
    path: str = response.json()["path"]
    return str(base_url).rstrip("/") + path
