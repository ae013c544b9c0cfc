from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.change_role import ChangeRole
from ...models.data_sent import DataSent
from ...models.mute_track import MuteTrack
from ...models.muted_track import MutedTrack
from ...models.participant import Participant
from ...models.participant_page import ParticipantPage
from ...models.role_change import RoleChange
from ...models.role_change_page import RoleChangePage
from ...models.role_change_result import RoleChangeResult
from ...models.send_data import SendData
from ...types import UNSET, Unset
from . import change_role as _change_role
from . import get_participant as _get_participant
from . import list_participants as _list_participants
from . import list_role_changes as _list_role_changes
from . import mute_track as _mute_track
from . import remove_participant as _remove_participant
from . import send_data as _send_data


class ParticipantsCalls:
    """The calls of participants."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def list_participants(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> ParticipantPage:
        """List who is in a room"""

        return _list_participants.parse(
            self._send(
                "list_participants",
                _list_participants.request(
                    name=name,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_participants(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[Participant]:
        """List who is in a room

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_participants(
                name=name,
                limit=limit,
                offset=offset,
            )
            for item in page.participants:
                yield item
            offset += len(page.participants)
            if not page.has_more or not page.participants:
                return

    def get_participant(
        self,
        name: str,
        identity: str,
    ) -> Participant:
        """Read one participant"""

        return _get_participant.parse(
            self._send(
                "get_participant",
                _get_participant.request(
                    name=name,
                    identity=identity,
                ),
            )
        )

    def remove_participant(
        self,
        name: str,
        identity: str,
    ) -> None:
        """Disconnect a participant; the token stays valid"""

        self._send(
            "remove_participant",
            _remove_participant.request(
                name=name,
                identity=identity,
            ),
        )

    def mute_track(
        self,
        name: str,
        identity: str,
        body: MuteTrack,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> MutedTrack:
        """Mute or unmute a participant's track"""

        return _mute_track.parse(
            self._send(
                "mute_track",
                _mute_track.request(
                    name=name,
                    identity=identity,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    def change_role(
        self,
        name: str,
        identity: str,
        body: ChangeRole,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> RoleChangeResult:
        """Give a participant another role, in place"""

        return _change_role.parse(
            self._send(
                "change_role",
                _change_role.request(
                    name=name,
                    identity=identity,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    def list_role_changes(
        self,
        name: str,
        *,
        identity: str | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> RoleChangePage:
        """List a room's role changes, newest first"""

        return _list_role_changes.parse(
            self._send(
                "list_role_changes",
                _list_role_changes.request(
                    name=name,
                    identity=identity,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_role_changes(
        self,
        name: str,
        *,
        identity: str | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[RoleChange]:
        """List a room's role changes, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_role_changes(
                name=name,
                identity=identity,
                limit=limit,
                offset=offset,
            )
            for item in page.role_changes:
                yield item
            offset += len(page.role_changes)
            if not page.has_more or not page.role_changes:
                return

    def send_data(
        self,
        name: str,
        body: SendData,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> DataSent:
        """Send data to everyone in a room, or to some"""

        return _send_data.parse(
            self._send(
                "send_data",
                _send_data.request(
                    name=name,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )


class AsyncParticipantsCalls:
    """The calls of participants."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def list_participants(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> ParticipantPage:
        """List who is in a room"""

        return _list_participants.parse(
            await self._send(
                "list_participants",
                _list_participants.request(
                    name=name,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_participants(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[Participant]:
        """List who is in a room

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_participants(
                name=name,
                limit=limit,
                offset=offset,
            )
            for item in page.participants:
                yield item
            offset += len(page.participants)
            if not page.has_more or not page.participants:
                return

    async def get_participant(
        self,
        name: str,
        identity: str,
    ) -> Participant:
        """Read one participant"""

        return _get_participant.parse(
            await self._send(
                "get_participant",
                _get_participant.request(
                    name=name,
                    identity=identity,
                ),
            )
        )

    async def remove_participant(
        self,
        name: str,
        identity: str,
    ) -> None:
        """Disconnect a participant; the token stays valid"""

        await self._send(
            "remove_participant",
            _remove_participant.request(
                name=name,
                identity=identity,
            ),
        )

    async def mute_track(
        self,
        name: str,
        identity: str,
        body: MuteTrack,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> MutedTrack:
        """Mute or unmute a participant's track"""

        return _mute_track.parse(
            await self._send(
                "mute_track",
                _mute_track.request(
                    name=name,
                    identity=identity,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    async def change_role(
        self,
        name: str,
        identity: str,
        body: ChangeRole,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> RoleChangeResult:
        """Give a participant another role, in place"""

        return _change_role.parse(
            await self._send(
                "change_role",
                _change_role.request(
                    name=name,
                    identity=identity,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    async def list_role_changes(
        self,
        name: str,
        *,
        identity: str | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> RoleChangePage:
        """List a room's role changes, newest first"""

        return _list_role_changes.parse(
            await self._send(
                "list_role_changes",
                _list_role_changes.request(
                    name=name,
                    identity=identity,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_role_changes(
        self,
        name: str,
        *,
        identity: str | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[RoleChange]:
        """List a room's role changes, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_role_changes(
                name=name,
                identity=identity,
                limit=limit,
                offset=offset,
            )
            for item in page.role_changes:
                yield item
            offset += len(page.role_changes)
            if not page.has_more or not page.role_changes:
                return

    async def send_data(
        self,
        name: str,
        body: SendData,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> DataSent:
        """Send data to everyone in a room, or to some"""

        return _send_data.parse(
            await self._send(
                "send_data",
                _send_data.request(
                    name=name,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )
