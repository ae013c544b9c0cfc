from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.create_recording_destination import CreateRecordingDestination
from ...models.create_rtmp_destination import CreateRtmpDestination
from ...models.destination import Destination
from ...models.destination_list import DestinationList
from ...models.update_destination import UpdateDestination
from ...types import UNSET, Unset
from . import create_destination as _create_destination
from . import delete_destination as _delete_destination
from . import get_destination as _get_destination
from . import list_destinations as _list_destinations
from . import update_destination as _update_destination


class DestinationsCalls:
    """The calls of destinations."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def list_destinations(
        self,
        id: str,
    ) -> DestinationList:
        """List a template's destinations"""

        return _list_destinations.parse(
            self._send(
                "list_destinations",
                _list_destinations.request(
                    id=id,
                ),
            )
        )

    def create_destination(
        self,
        id: str,
        body: CreateRecordingDestination | CreateRtmpDestination,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Destination:
        """Create a destination"""

        return _create_destination.parse(
            self._send(
                "create_destination",
                _create_destination.request(
                    id=id,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    def get_destination(
        self,
        id: str,
        name: str,
    ) -> Destination:
        """Read a destination, without its secrets"""

        return _get_destination.parse(
            self._send(
                "get_destination",
                _get_destination.request(
                    id=id,
                    name=name,
                ),
            )
        )

    def delete_destination(
        self,
        id: str,
        name: str,
    ) -> None:
        """Delete a destination that nothing runs against"""

        self._send(
            "delete_destination",
            _delete_destination.request(
                id=id,
                name=name,
            ),
        )

    def update_destination(
        self,
        id: str,
        name: str,
        body: UpdateDestination,
    ) -> Destination:
        """Replace a destination's configuration; credentials left out are kept"""

        return _update_destination.parse(
            self._send(
                "update_destination",
                _update_destination.request(
                    id=id,
                    name=name,
                    body=body,
                ),
            )
        )


class AsyncDestinationsCalls:
    """The calls of destinations."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def list_destinations(
        self,
        id: str,
    ) -> DestinationList:
        """List a template's destinations"""

        return _list_destinations.parse(
            await self._send(
                "list_destinations",
                _list_destinations.request(
                    id=id,
                ),
            )
        )

    async def create_destination(
        self,
        id: str,
        body: CreateRecordingDestination | CreateRtmpDestination,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Destination:
        """Create a destination"""

        return _create_destination.parse(
            await self._send(
                "create_destination",
                _create_destination.request(
                    id=id,
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    async def get_destination(
        self,
        id: str,
        name: str,
    ) -> Destination:
        """Read a destination, without its secrets"""

        return _get_destination.parse(
            await self._send(
                "get_destination",
                _get_destination.request(
                    id=id,
                    name=name,
                ),
            )
        )

    async def delete_destination(
        self,
        id: str,
        name: str,
    ) -> None:
        """Delete a destination that nothing runs against"""

        await self._send(
            "delete_destination",
            _delete_destination.request(
                id=id,
                name=name,
            ),
        )

    async def update_destination(
        self,
        id: str,
        name: str,
        body: UpdateDestination,
    ) -> Destination:
        """Replace a destination's configuration; credentials left out are kept"""

        return _update_destination.parse(
            await self._send(
                "update_destination",
                _update_destination.request(
                    id=id,
                    name=name,
                    body=body,
                ),
            )
        )
