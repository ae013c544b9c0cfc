import datetime
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.broadcast import Broadcast
from ...models.broadcast_page import BroadcastPage
from ...models.egress_status import EgressStatus, check_egress_status
from ...models.start_broadcast import StartBroadcast
from ...types import UNSET, Unset
from . import get_broadcast as _get_broadcast
from . import list_broadcasts as _list_broadcasts
from . import start_broadcast as _start_broadcast
from . import stop_broadcast as _stop_broadcast


class BroadcastsCalls:
    """The calls of broadcasts."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def list_broadcasts(
        self,
        *,
        room: str | Unset = UNSET,
        status: EgressStatus | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> BroadcastPage:
        """List the project's broadcasts, newest first"""

        return _list_broadcasts.parse(
            self._send(
                "list_broadcasts",
                _list_broadcasts.request(
                    room=room,
                    status=status,
                    after=after,
                    before=before,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_broadcasts(
        self,
        *,
        room: str | Unset = UNSET,
        status: EgressStatus | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[Broadcast]:
        """List the project's broadcasts, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_broadcasts(
                room=room,
                status=status,
                after=after,
                before=before,
                limit=limit,
                offset=offset,
            )
            for item in page.broadcasts:
                yield item
            offset += len(page.broadcasts)
            if not page.has_more or not page.broadcasts:
                return

    def get_broadcast(
        self,
        egress_id: str,
    ) -> Broadcast:
        """Read a broadcast; while it runs, the media plane is asked for its status"""

        return _get_broadcast.parse(
            self._send(
                "get_broadcast",
                _get_broadcast.request(
                    egress_id=egress_id,
                ),
            )
        )

    def stop_broadcast(
        self,
        egress_id: str,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Broadcast:
        """Stop a broadcast"""

        return _stop_broadcast.parse(
            self._send(
                "stop_broadcast",
                _stop_broadcast.request(
                    egress_id=egress_id,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    def start_broadcast(
        self,
        name: str,
        body: StartBroadcast,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Broadcast:
        """Start a broadcast"""

        return _start_broadcast.parse(
            self._send(
                "start_broadcast",
                _start_broadcast.request(
                    name=name,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )


class AsyncBroadcastsCalls:
    """The calls of broadcasts."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def list_broadcasts(
        self,
        *,
        room: str | Unset = UNSET,
        status: EgressStatus | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> BroadcastPage:
        """List the project's broadcasts, newest first"""

        return _list_broadcasts.parse(
            await self._send(
                "list_broadcasts",
                _list_broadcasts.request(
                    room=room,
                    status=status,
                    after=after,
                    before=before,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_broadcasts(
        self,
        *,
        room: str | Unset = UNSET,
        status: EgressStatus | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[Broadcast]:
        """List the project's broadcasts, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_broadcasts(
                room=room,
                status=status,
                after=after,
                before=before,
                limit=limit,
                offset=offset,
            )
            for item in page.broadcasts:
                yield item
            offset += len(page.broadcasts)
            if not page.has_more or not page.broadcasts:
                return

    async def get_broadcast(
        self,
        egress_id: str,
    ) -> Broadcast:
        """Read a broadcast; while it runs, the media plane is asked for its status"""

        return _get_broadcast.parse(
            await self._send(
                "get_broadcast",
                _get_broadcast.request(
                    egress_id=egress_id,
                ),
            )
        )

    async def stop_broadcast(
        self,
        egress_id: str,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Broadcast:
        """Stop a broadcast"""

        return _stop_broadcast.parse(
            await self._send(
                "stop_broadcast",
                _stop_broadcast.request(
                    egress_id=egress_id,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    async def start_broadcast(
        self,
        name: str,
        body: StartBroadcast,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Broadcast:
        """Start a broadcast"""

        return _start_broadcast.parse(
            await self._send(
                "start_broadcast",
                _start_broadcast.request(
                    name=name,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )
