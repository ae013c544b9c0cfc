"""Transports that retry requests where that is safe, and raise error responses."""

import asyncio
import time

import httpx

from ._credential import Credential
from ._retry import RetryPolicy
from .errors import ConclaveError, error_of


class Transport(httpx.BaseTransport):
    """The transport of `Conclave`."""

    def __init__(self, inner: httpx.BaseTransport | None, policy: RetryPolicy, credential: Credential) -> None:
        self._inner = inner or _Environment()
        self._policy = policy
        self._credential = credential

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        attempt = 0
        while True:
            try:
                response = self._inner.handle_request(request)
                response.read()
            except httpx.RequestError as cause:
                wait = self._policy.wait_after_failure(request, attempt)
                if wait is None:
                    raise _unreachable(cause, self._credential) from self._credential.printable(cause)
            else:
                if not response.is_error:
                    return response
                wait = self._policy.wait_after_response(request, attempt, response)
                if wait is None:
                    raise error_of(response, self._credential)
            time.sleep(wait)
            attempt += 1

    def close(self) -> None:
        self._inner.close()


class AsyncTransport(httpx.AsyncBaseTransport):
    """The transport of `AsyncConclave`."""

    def __init__(self, inner: httpx.AsyncBaseTransport | None, policy: RetryPolicy, credential: Credential) -> None:
        self._inner = inner or _AsyncEnvironment()
        self._policy = policy
        self._credential = credential

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        attempt = 0
        while True:
            try:
                response = await self._inner.handle_async_request(request)
                await response.aread()
            except httpx.RequestError as cause:
                wait = self._policy.wait_after_failure(request, attempt)
                if wait is None:
                    raise _unreachable(cause, self._credential) from self._credential.printable(cause)
            else:
                if not response.is_error:
                    return response
                wait = self._policy.wait_after_response(request, attempt, response)
                if wait is None:
                    raise error_of(response, self._credential)
            await asyncio.sleep(wait)
            attempt += 1

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Environment(httpx.BaseTransport):
    """Sends as httpx does by default: with the proxies and certificates of the environment.

    httpx applies these settings only to a client without a transport, so this is a separate client, below the retries.
    """

    def __init__(self) -> None:
        self._http = httpx.Client()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._http.send(request, stream=True, follow_redirects=False)

    def close(self) -> None:
        self._http.close()


class _AsyncEnvironment(httpx.AsyncBaseTransport):
    """`_Environment` for asyncio."""

    def __init__(self) -> None:
        self._http = httpx.AsyncClient()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._http.send(request, stream=True, follow_redirects=False)

    async def aclose(self) -> None:
        await self._http.aclose()


def _unreachable(cause: httpx.RequestError, credential: Credential) -> ConclaveError:
    return ConclaveError("connection_failed", credential.hide(str(cause)) or type(cause).__name__)
