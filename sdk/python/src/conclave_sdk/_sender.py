"""Senders of the calls of both clients."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, cast

import httpx

from ._credential import Credential, base_url
from ._environment import from_environment
from ._requests import Options, request_of
from ._responses import result_of
from ._retry import RetryPolicy
from ._transport import AsyncTransport, Transport

_TIMEOUT = 30.0


class Sender:
    """Sends the calls of `Conclave`."""

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

    def _send(
        self,
        operation: str,
        path: Sequence[str],
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Any:  # noqa: ANN401
        request = request_of(operation, path, Options(query or {}, body, idempotency_key, timeout))
        return result_of(operation, self._http.request(**request, follow_redirects=False), self._credential)

    def _all(
        self, operation: str, items: str, path: Sequence[str], *, query: Mapping[str, object], timeout: float | None
    ) -> Iterator[Any]:
        offset = cast(int, query["offset"])
        while True:
            page = self._send(operation, path, query={**query, "offset": offset}, timeout=timeout)
            found: list[Any] = getattr(page, items)
            yield from found
            offset += len(found)
            if not page.has_more or not found:
                return

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncSender:
    """Sends the calls of `AsyncConclave`."""

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

    async def _send(
        self,
        operation: str,
        path: Sequence[str],
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Any:  # noqa: ANN401
        request = request_of(operation, path, Options(query or {}, body, idempotency_key, timeout))
        return result_of(operation, await self._http.request(**request, follow_redirects=False), self._credential)

    async def _all(
        self, operation: str, items: str, path: Sequence[str], *, query: Mapping[str, object], timeout: float | None
    ) -> AsyncIterator[Any]:
        offset = cast(int, query["offset"])
        while True:
            page = await self._send(operation, path, query={**query, "offset": offset}, timeout=timeout)
            found: list[Any] = getattr(page, items)
            for item in found:
                yield item
            offset += len(found)
            if not page.has_more or not found:
                return

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Extension:
    """Sends the calls of `Conclave.ext` by the client."""

    def __init__(self, send: Callable[..., Any], every: Callable[..., Iterator[Any]]) -> None:
        self._send, self._all = send, every


class AsyncExtension:
    """Sends the calls of `AsyncConclave.ext` by the client."""

    def __init__(self, send: Callable[..., Awaitable[Any]], every: Callable[..., AsyncIterator[Any]]) -> None:
        self._send, self._all = send, every
