"""Links to the files of recordings on the server's disk."""

from typing import Any

import httpx

from ._credential import Credential
from ._paths import segment
from .errors import unexpected


def link_request(egress_id: str, expires_in_seconds: int) -> dict[str, Any]:
    """Returns the request for a link."""
    return {
        "method": "GET",
        "url": f"/files/recordings/{segment('egress_id', egress_id)}/link",
        "params": {"expires_in_seconds": expires_in_seconds},
    }


def link_of(base_url: httpx.URL, response: httpx.Response, credential: Credential) -> str:
    """Returns the link that a server has answered with, at the address under which this client knows the server."""
    path: str = response.json()["path"]
    # Anything else would change the host.
    if not path.startswith("/"):
        raise unexpected(response, credential, "the response has no path of this server")
    return str(base_url).rstrip("/") + path
