"""The synchronous and the asynchronous client."""

import httpx

from ._generated.calls import AsyncCalls, AsyncExtCalls, Calls, ExtCalls
from ._generated.models import RecordingLink
from .errors import ConclaveError


class Conclave(Calls):
    """Access to one project, with its server's URL and an API key. Has a method for each API operation.

    Omitted arguments are read from `CONCLAVE_URL` and `CONCLAVE_KEY` in the environment.

    Keeps connections open until it is closed, and can be shared by threads. It uses the proxies of `HTTPS_PROXY`
    and `NO_PROXY`, and follows no redirects. `transport` sends the requests instead of httpx's own transport.

    Raises:
        ConclaveError: if the URL or the key is missing or malformed.
    """

    @property
    def ext(self) -> ExtCalls:
        """The operations below `/ext/v1`, beyond the contract."""
        return ExtCalls(self._send, self._all)

    def recording_link(self, egress_id: str, *, expires_in_seconds: int = 3600, timeout: float | None = None) -> str:
        """Returns a link to a recording's file on the server's disk, for clients without an API key.

        It is valid for 1 second to 7 days.
        """
        query = {"expires_in_seconds": expires_in_seconds}
        return _link(self._http.base_url, self._send("recording_link", [egress_id], query=query, timeout=timeout))


class AsyncConclave(AsyncCalls):
    """`Conclave` for asyncio."""

    @property
    def ext(self) -> AsyncExtCalls:
        """The operations below `/ext/v1`, beyond the contract."""
        return AsyncExtCalls(self._send, self._all)

    async def recording_link(
        self, egress_id: str, *, expires_in_seconds: int = 3600, timeout: float | None = None
    ) -> str:
        """Returns a link to a recording's file, as `Conclave.recording_link` does."""
        query = {"expires_in_seconds": expires_in_seconds}
        return _link(self._http.base_url, await self._send("recording_link", [egress_id], query=query, timeout=timeout))


def _link(base_url: httpx.URL, link: RecordingLink) -> str:
    """Returns a link at this client's address of the server."""
    # A path without a leading slash would change the host.
    if not link.path.startswith("/"):
        raise ConclaveError("unknown", "the response has no path of this server", status=200)
    return str(base_url).rstrip("/") + link.path
