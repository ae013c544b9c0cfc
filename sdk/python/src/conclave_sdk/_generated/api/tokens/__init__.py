from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.create_token import CreateToken
from ...models.token import Token
from ...types import UNSET, Unset
from . import create_token as _create_token


class TokensCalls:
    """The calls of tokens."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def create_token(
        self,
        body: CreateToken,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Token:
        """Mint a room token"""

        return _create_token.parse(
            self._send(
                "create_token",
                _create_token.request(
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )


class AsyncTokensCalls:
    """The calls of tokens."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def create_token(
        self,
        body: CreateToken,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Token:
        """Mint a room token"""

        return _create_token.parse(
            await self._send(
                "create_token",
                _create_token.request(
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )
