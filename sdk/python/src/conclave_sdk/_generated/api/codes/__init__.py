from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.create_code import CreateCode
from ...models.exchange_code import ExchangeCode
from ...models.room_code import RoomCode
from ...models.room_code_page import RoomCodePage
from ...models.token import Token
from ...types import UNSET, Unset
from . import create_code as _create_code
from . import disable_code as _disable_code
from . import exchange_code as _exchange_code
from . import list_codes as _list_codes


class CodesCalls:
    """The calls of codes."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def disable_code(
        self,
        code: str,
    ) -> None:
        """Disable a room code; tokens it has given stay valid"""

        self._send(
            "disable_code",
            _disable_code.request(
                code=code,
            ),
        )

    def exchange_code(
        self,
        code: str,
        body: ExchangeCode | Unset = UNSET,
    ) -> Token:
        """Exchange a room code for a room token"""

        return _exchange_code.parse(
            self._send(
                "exchange_code",
                _exchange_code.request(
                    code=code,
                    body=body,
                ),
            )
        )

    def list_codes(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> RoomCodePage:
        """List a room's codes, newest first, those that cannot be used any more too"""

        return _list_codes.parse(
            self._send(
                "list_codes",
                _list_codes.request(
                    name=name,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_codes(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[RoomCode]:
        """List a room's codes, newest first, those that cannot be used any more too

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_codes(
                name=name,
                limit=limit,
                offset=offset,
            )
            for item in page.codes:
                yield item
            offset += len(page.codes)
            if not page.has_more or not page.codes:
                return

    def create_code(
        self,
        name: str,
        body: CreateCode,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> RoomCode:
        """Create a room code; the answer shows it whole, this once"""

        return _create_code.parse(
            self._send(
                "create_code",
                _create_code.request(
                    name=name,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )


class AsyncCodesCalls:
    """The calls of codes."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def disable_code(
        self,
        code: str,
    ) -> None:
        """Disable a room code; tokens it has given stay valid"""

        await self._send(
            "disable_code",
            _disable_code.request(
                code=code,
            ),
        )

    async def exchange_code(
        self,
        code: str,
        body: ExchangeCode | Unset = UNSET,
    ) -> Token:
        """Exchange a room code for a room token"""

        return _exchange_code.parse(
            await self._send(
                "exchange_code",
                _exchange_code.request(
                    code=code,
                    body=body,
                ),
            )
        )

    async def list_codes(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> RoomCodePage:
        """List a room's codes, newest first, those that cannot be used any more too"""

        return _list_codes.parse(
            await self._send(
                "list_codes",
                _list_codes.request(
                    name=name,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_codes(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[RoomCode]:
        """List a room's codes, newest first, those that cannot be used any more too

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_codes(
                name=name,
                limit=limit,
                offset=offset,
            )
            for item in page.codes:
                yield item
            offset += len(page.codes)
            if not page.has_more or not page.codes:
                return

    async def create_code(
        self,
        name: str,
        body: CreateCode,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> RoomCode:
        """Create a room code; the answer shows it whole, this once"""

        return _create_code.parse(
            await self._send(
                "create_code",
                _create_code.request(
                    name=name,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )
