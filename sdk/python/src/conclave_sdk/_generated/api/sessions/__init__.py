import datetime
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.session import Session
from ...models.session_detail import SessionDetail
from ...models.session_page import SessionPage
from ...types import UNSET, Unset
from . import get_session as _get_session
from . import list_room_sessions as _list_room_sessions
from . import list_sessions as _list_sessions


class SessionsCalls:
    """The calls of sessions."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def list_room_sessions(
        self,
        name: str,
        *,
        identity: str | Unset = UNSET,
        role: str | Unset = UNSET,
        active: bool | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> SessionPage:
        """List a room's sessions, newest first"""

        return _list_room_sessions.parse(
            self._send(
                "list_room_sessions",
                _list_room_sessions.request(
                    name=name,
                    identity=identity,
                    role=role,
                    active=active,
                    after=after,
                    before=before,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_room_sessions(
        self,
        name: str,
        *,
        identity: str | Unset = UNSET,
        role: str | Unset = UNSET,
        active: bool | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[Session]:
        """List a room's sessions, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_room_sessions(
                name=name,
                identity=identity,
                role=role,
                active=active,
                after=after,
                before=before,
                limit=limit,
                offset=offset,
            )
            for item in page.sessions:
                yield item
            offset += len(page.sessions)
            if not page.has_more or not page.sessions:
                return

    def list_sessions(
        self,
        *,
        room: str | Unset = UNSET,
        identity: str | Unset = UNSET,
        role: str | Unset = UNSET,
        active: bool | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> SessionPage:
        """List sessions, newest first"""

        return _list_sessions.parse(
            self._send(
                "list_sessions",
                _list_sessions.request(
                    room=room,
                    identity=identity,
                    role=role,
                    active=active,
                    after=after,
                    before=before,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_sessions(
        self,
        *,
        room: str | Unset = UNSET,
        identity: str | Unset = UNSET,
        role: str | Unset = UNSET,
        active: bool | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[Session]:
        """List sessions, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_sessions(
                room=room,
                identity=identity,
                role=role,
                active=active,
                after=after,
                before=before,
                limit=limit,
                offset=offset,
            )
            for item in page.sessions:
                yield item
            offset += len(page.sessions)
            if not page.has_more or not page.sessions:
                return

    def get_session(
        self,
        id: str,
    ) -> SessionDetail:
        """Read a session with its tracks"""

        return _get_session.parse(
            self._send(
                "get_session",
                _get_session.request(
                    id=id,
                ),
            )
        )


class AsyncSessionsCalls:
    """The calls of sessions."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def list_room_sessions(
        self,
        name: str,
        *,
        identity: str | Unset = UNSET,
        role: str | Unset = UNSET,
        active: bool | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> SessionPage:
        """List a room's sessions, newest first"""

        return _list_room_sessions.parse(
            await self._send(
                "list_room_sessions",
                _list_room_sessions.request(
                    name=name,
                    identity=identity,
                    role=role,
                    active=active,
                    after=after,
                    before=before,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_room_sessions(
        self,
        name: str,
        *,
        identity: str | Unset = UNSET,
        role: str | Unset = UNSET,
        active: bool | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[Session]:
        """List a room's sessions, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_room_sessions(
                name=name,
                identity=identity,
                role=role,
                active=active,
                after=after,
                before=before,
                limit=limit,
                offset=offset,
            )
            for item in page.sessions:
                yield item
            offset += len(page.sessions)
            if not page.has_more or not page.sessions:
                return

    async def list_sessions(
        self,
        *,
        room: str | Unset = UNSET,
        identity: str | Unset = UNSET,
        role: str | Unset = UNSET,
        active: bool | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> SessionPage:
        """List sessions, newest first"""

        return _list_sessions.parse(
            await self._send(
                "list_sessions",
                _list_sessions.request(
                    room=room,
                    identity=identity,
                    role=role,
                    active=active,
                    after=after,
                    before=before,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_sessions(
        self,
        *,
        room: str | Unset = UNSET,
        identity: str | Unset = UNSET,
        role: str | Unset = UNSET,
        active: bool | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[Session]:
        """List sessions, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_sessions(
                room=room,
                identity=identity,
                role=role,
                active=active,
                after=after,
                before=before,
                limit=limit,
                offset=offset,
            )
            for item in page.sessions:
                yield item
            offset += len(page.sessions)
            if not page.has_more or not page.sessions:
                return

    async def get_session(
        self,
        id: str,
    ) -> SessionDetail:
        """Read a session with its tracks"""

        return _get_session.parse(
            await self._send(
                "get_session",
                _get_session.request(
                    id=id,
                ),
            )
        )
