import datetime
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.egress_status import EgressStatus, check_egress_status
from ...models.recording import Recording
from ...models.recording_page import RecordingPage
from ...models.start_recording import StartRecording
from ...types import UNSET, Unset
from . import get_recording as _get_recording
from . import list_recordings as _list_recordings
from . import list_room_recordings as _list_room_recordings
from . import start_recording as _start_recording
from . import stop_recording as _stop_recording


class RecordingsCalls:
    """The calls of recordings."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def list_recordings(
        self,
        *,
        room: str | Unset = UNSET,
        status: EgressStatus | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> RecordingPage:
        """List the project's recordings, newest first"""

        return _list_recordings.parse(
            self._send(
                "list_recordings",
                _list_recordings.request(
                    room=room,
                    status=status,
                    after=after,
                    before=before,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_recordings(
        self,
        *,
        room: str | Unset = UNSET,
        status: EgressStatus | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[Recording]:
        """List the project's recordings, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_recordings(
                room=room,
                status=status,
                after=after,
                before=before,
                limit=limit,
                offset=offset,
            )
            for item in page.recordings:
                yield item
            offset += len(page.recordings)
            if not page.has_more or not page.recordings:
                return

    def get_recording(
        self,
        egress_id: str,
    ) -> Recording:
        """Read a recording; while it runs, the media plane is asked for its status"""

        return _get_recording.parse(
            self._send(
                "get_recording",
                _get_recording.request(
                    egress_id=egress_id,
                ),
            )
        )

    def stop_recording(
        self,
        egress_id: str,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Recording:
        """Stop a recording; the file is final shortly after"""

        return _stop_recording.parse(
            self._send(
                "stop_recording",
                _stop_recording.request(
                    egress_id=egress_id,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    def list_room_recordings(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> RecordingPage:
        """List a room's recordings, newest first"""

        return _list_room_recordings.parse(
            self._send(
                "list_room_recordings",
                _list_room_recordings.request(
                    name=name,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_room_recordings(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[Recording]:
        """List a room's recordings, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_room_recordings(
                name=name,
                limit=limit,
                offset=offset,
            )
            for item in page.recordings:
                yield item
            offset += len(page.recordings)
            if not page.has_more or not page.recordings:
                return

    def start_recording(
        self,
        name: str,
        body: StartRecording,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Recording:
        """Start a recording"""

        return _start_recording.parse(
            self._send(
                "start_recording",
                _start_recording.request(
                    name=name,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )


class AsyncRecordingsCalls:
    """The calls of recordings."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def list_recordings(
        self,
        *,
        room: str | Unset = UNSET,
        status: EgressStatus | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> RecordingPage:
        """List the project's recordings, newest first"""

        return _list_recordings.parse(
            await self._send(
                "list_recordings",
                _list_recordings.request(
                    room=room,
                    status=status,
                    after=after,
                    before=before,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_recordings(
        self,
        *,
        room: str | Unset = UNSET,
        status: EgressStatus | Unset = UNSET,
        after: datetime.datetime | Unset = UNSET,
        before: datetime.datetime | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[Recording]:
        """List the project's recordings, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_recordings(
                room=room,
                status=status,
                after=after,
                before=before,
                limit=limit,
                offset=offset,
            )
            for item in page.recordings:
                yield item
            offset += len(page.recordings)
            if not page.has_more or not page.recordings:
                return

    async def get_recording(
        self,
        egress_id: str,
    ) -> Recording:
        """Read a recording; while it runs, the media plane is asked for its status"""

        return _get_recording.parse(
            await self._send(
                "get_recording",
                _get_recording.request(
                    egress_id=egress_id,
                ),
            )
        )

    async def stop_recording(
        self,
        egress_id: str,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Recording:
        """Stop a recording; the file is final shortly after"""

        return _stop_recording.parse(
            await self._send(
                "stop_recording",
                _stop_recording.request(
                    egress_id=egress_id,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    async def list_room_recordings(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> RecordingPage:
        """List a room's recordings, newest first"""

        return _list_room_recordings.parse(
            await self._send(
                "list_room_recordings",
                _list_room_recordings.request(
                    name=name,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_room_recordings(
        self,
        name: str,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[Recording]:
        """List a room's recordings, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_room_recordings(
                name=name,
                limit=limit,
                offset=offset,
            )
            for item in page.recordings:
                yield item
            offset += len(page.recordings)
            if not page.has_more or not page.recordings:
                return

    async def start_recording(
        self,
        name: str,
        body: StartRecording,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Recording:
        """Start a recording"""

        return _start_recording.parse(
            await self._send(
                "start_recording",
                _start_recording.request(
                    name=name,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )
