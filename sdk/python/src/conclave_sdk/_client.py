"""The two clients."""

import httpx

from ._generated.calls import AsyncCalls, AsyncExtCalls, Calls, ExtCalls
from ._generated.models import RecordingLink
from .errors import ConclaveError


class Conclave(Calls):
    """A project, by the URL of its server and one of its API keys. Has a method for each operation of the API.

    Without them, it reads `CONCLAVE_URL` and `CONCLAVE_KEY` of the environment.

    It keeps connections open until it is closed, and threads may share it. It uses the proxies of
    `HTTPS_PROXY` and `NO_PROXY`, and follows no redirects. `transport` is what sends the requests, if that is not
    httpx's own.

    Raises:
        ConclaveError: if the URL or the key is missing or cannot be one.
    """

    @property
    def ext(self) -> ExtCalls:
        """The operations below `/ext/v1`, beyond the contract."""
        return ExtCalls(self._send, self._all)

    def recording_link(self, egress_id: str, *, expires_in_seconds: int = 3600, timeout: float | None = None) -> str:
        """Returns a link to the file of a recording on the server's disk, for those without an API key.

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
        """Returns a link to the file of a recording, as `Conclave.recording_link` does."""
        query = {"expires_in_seconds": expires_in_seconds}
        return _link(self._http.base_url, await self._send("recording_link", [egress_id], query=query, timeout=timeout))


def _link(base_url: httpx.URL, link: RecordingLink) -> str:
    """Returns a link at the address under which this client knows the server."""
    # Anything else would change the host.
    if not link.path.startswith("/"):
        raise ConclaveError("unknown", "the response has no path of this server", status=200)
    return str(base_url).rstrip("/") + link.path
