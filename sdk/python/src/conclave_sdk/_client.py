"""The two clients."""

import uuid
from types import TracebackType
from typing import Any, Self

import httpx

from ._credential import Credential, base_url
from ._environment import from_environment
from ._files import link_of, link_request
from ._generated.api.broadcasts import AsyncBroadcastsCalls, BroadcastsCalls
from ._generated.api.codes import AsyncCodesCalls, CodesCalls
from ._generated.api.destinations import AsyncDestinationsCalls, DestinationsCalls
from ._generated.api.ingress import AsyncIngressCalls, IngressCalls
from ._generated.api.participants import AsyncParticipantsCalls, ParticipantsCalls
from ._generated.api.recordings import AsyncRecordingsCalls, RecordingsCalls
from ._generated.api.roles import AsyncRolesCalls, RolesCalls
from ._generated.api.rooms import AsyncRoomsCalls, RoomsCalls
from ._generated.api.sessions import AsyncSessionsCalls, SessionsCalls
from ._generated.api.templates import AsyncTemplatesCalls, TemplatesCalls
from ._generated.api.tokens import AsyncTokensCalls, TokensCalls
from ._generated.api.usage import AsyncUsageCalls, UsageCalls
from ._generated.api.webhooks import AsyncWebhooksCalls, WebhooksCalls
from ._responses import checked
from ._retry import RetryPolicy, takes_idempotency_key
from ._transport import AsyncTransport, Transport

_TIMEOUT = 30.0


class Conclave(
    RoomsCalls,
    ParticipantsCalls,
    TokensCalls,
    CodesCalls,
    TemplatesCalls,
    RolesCalls,
    DestinationsCalls,
    RecordingsCalls,
    BroadcastsCalls,
    IngressCalls,
    SessionsCalls,
    WebhooksCalls,
    UsageCalls,
):
    """A project, by the URL of its server and one of its API keys. Has a method for each operation of the API.

    Without them, it reads `CONCLAVE_URL` and `CONCLAVE_KEY` of the environment.

    It keeps connections open until it is closed, and threads may share it. It uses the proxies of
    `HTTPS_PROXY` and `NO_PROXY`, and follows no redirects. `transport` is what sends the requests, if that is not
    httpx's own.

    Raises:
        ConclaveError: if the URL or the key is missing or cannot be one.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        timeout: float = _TIMEOUT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        url, api_key = from_environment(url, api_key)
        self._credential = Credential(api_key)
        headers = {"Authorization": self._credential.header}
        sender = Transport(transport, retry or RetryPolicy(), self._credential)
        self._http = httpx.Client(base_url=base_url(url), headers=headers, timeout=timeout, transport=sender)

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        response = self._http.request(**_with_key(request), follow_redirects=False)
        return checked(operation, response, self._credential)

    def recording_link(self, egress_id: str, *, expires_in_seconds: int = 3600) -> str:
        """Returns a link to the file of a recording on the server's disk, for those without an API key.

        It is valid for 1 second to 7 days.
        """
        response = self._send("recording_link", link_request(egress_id, expires_in_seconds))
        return link_of(self._http.base_url, response, self._credential)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncConclave(
    AsyncRoomsCalls,
    AsyncParticipantsCalls,
    AsyncTokensCalls,
    AsyncCodesCalls,
    AsyncTemplatesCalls,
    AsyncRolesCalls,
    AsyncDestinationsCalls,
    AsyncRecordingsCalls,
    AsyncBroadcastsCalls,
    AsyncIngressCalls,
    AsyncSessionsCalls,
    AsyncWebhooksCalls,
    AsyncUsageCalls,
):
    """`Conclave` for asyncio."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        timeout: float = _TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        url, api_key = from_environment(url, api_key)
        self._credential = Credential(api_key)
        headers = {"Authorization": self._credential.header}
        sender = AsyncTransport(transport, retry or RetryPolicy(), self._credential)
        self._http = httpx.AsyncClient(base_url=base_url(url), headers=headers, timeout=timeout, transport=sender)

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        response = await self._http.request(**_with_key(request), follow_redirects=False)
        return checked(operation, response, self._credential)

    async def recording_link(self, egress_id: str, *, expires_in_seconds: int = 3600) -> str:
        """Returns a link to the file of a recording, as `Conclave.recording_link` does."""
        response = await self._send("recording_link", link_request(egress_id, expires_in_seconds))
        return link_of(self._http.base_url, response, self._credential)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _with_key(request: dict[str, Any]) -> dict[str, Any]:
    """Adds the `Idempotency-Key` of a call, which all of its attempts share."""
    headers = request.get("headers", {})
    if takes_idempotency_key(request["method"].upper(), request["url"]) and "Idempotency-Key" not in headers:
        return request | {"headers": headers | {"Idempotency-Key": str(uuid.uuid4())}}
    return request
