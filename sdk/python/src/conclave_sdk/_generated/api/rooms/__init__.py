from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.create_room import CreateRoom
from ...models.room import Room
from ...models.room_page import RoomPage
from ...types import UNSET, Unset
from . import create_room as _create_room
from . import end_room as _end_room
from . import get_room as _get_room
from . import list_rooms as _list_rooms


class RoomsCalls:
    """The calls of rooms."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def list_rooms(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> RoomPage:
        """List rooms, newest first, ended ones too"""

        return _list_rooms.parse(
            self._send(
                "list_rooms",
                _list_rooms.request(
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_rooms(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[Room]:
        """List rooms, newest first, ended ones too

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_rooms(
                limit=limit,
                offset=offset,
            )
            for item in page.rooms:
                yield item
            offset += len(page.rooms)
            if not page.has_more or not page.rooms:
                return

    def create_room(
        self,
        body: CreateRoom,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Room:
        """Create a room"""

        return _create_room.parse(
            self._send(
                "create_room",
                _create_room.request(
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    def get_room(
        self,
        name: str,
    ) -> Room:
        """Read a room's record"""

        return _get_room.parse(
            self._send(
                "get_room",
                _get_room.request(
                    name=name,
                ),
            )
        )

    def end_room(
        self,
        name: str,
    ) -> None:
        """End a room and disconnect everyone"""

        self._send(
            "end_room",
            _end_room.request(
                name=name,
            ),
        )


class AsyncRoomsCalls:
    """The calls of rooms."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def list_rooms(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> RoomPage:
        """List rooms, newest first, ended ones too"""

        return _list_rooms.parse(
            await self._send(
                "list_rooms",
                _list_rooms.request(
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_rooms(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[Room]:
        """List rooms, newest first, ended ones too

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_rooms(
                limit=limit,
                offset=offset,
            )
            for item in page.rooms:
                yield item
            offset += len(page.rooms)
            if not page.has_more or not page.rooms:
                return

    async def create_room(
        self,
        body: CreateRoom,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Room:
        """Create a room"""

        return _create_room.parse(
            await self._send(
                "create_room",
                _create_room.request(
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    async def get_room(
        self,
        name: str,
    ) -> Room:
        """Read a room's record"""

        return _get_room.parse(
            await self._send(
                "get_room",
                _get_room.request(
                    name=name,
                ),
            )
        )

    async def end_room(
        self,
        name: str,
    ) -> None:
        """End a room and disconnect everyone"""

        await self._send(
            "end_room",
            _end_room.request(
                name=name,
            ),
        )
