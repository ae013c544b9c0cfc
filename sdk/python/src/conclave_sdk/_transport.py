"""Transports that send a request again where that is safe, and raise a refusal as an error."""

import asyncio
import time

import httpx

from ._retry import RetryPolicy
from .errors import ConclaveError, error_of


class Transport(httpx.BaseTransport):
    """The transport of `Conclave`."""

    def __init__(self, inner: httpx.BaseTransport, policy: RetryPolicy) -> None:
        self._inner = inner
        self._policy = policy

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        attempt = 0
        while True:
            try:
                response = self._inner.handle_request(request)
                response.read()
            except httpx.TransportError as cause:
                wait = self._policy.wait_after_failure(request, attempt)
                if wait is None:
                    raise _unreachable(cause) from cause
            else:
                if not response.is_error:
                    return response
                wait = self._policy.wait_after_response(request, attempt, response)
                if wait is None:
                    raise error_of(response)
            time.sleep(wait)
            attempt += 1

    def close(self) -> None:
        self._inner.close()


class AsyncTransport(httpx.AsyncBaseTransport):
    """The transport of `AsyncConclave`."""

    def __init__(self, inner: httpx.AsyncBaseTransport, policy: RetryPolicy) -> None:
        self._inner = inner
        self._policy = policy

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        attempt = 0
        while True:
            try:
                response = await self._inner.handle_async_request(request)
                await response.aread()
            except httpx.TransportError as cause:
                wait = self._policy.wait_after_failure(request, attempt)
                if wait is None:
                    raise _unreachable(cause) from cause
            else:
                if not response.is_error:
                    return response
                wait = self._policy.wait_after_response(request, attempt, response)
                if wait is None:
                    raise error_of(response)
            await asyncio.sleep(wait)
            attempt += 1

    async def aclose(self) -> None:
        await self._inner.aclose()


def _unreachable(cause: httpx.TransportError) -> ConclaveError:
    return ConclaveError("connection_failed", str(cause) or type(cause).__name__)
