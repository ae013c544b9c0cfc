from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.create_ingress import CreateIngress
from ...models.ingress import Ingress
from ...models.ingress_created import IngressCreated
from ...models.ingress_page import IngressPage
from ...models.ingress_status import IngressStatus, check_ingress_status
from ...models.input_type import InputType, check_input_type
from ...types import UNSET, Unset
from . import create_ingress as _create_ingress
from . import delete_ingress as _delete_ingress
from . import get_ingress as _get_ingress
from . import list_ingresses as _list_ingresses


class IngressCalls:
    """The calls of ingress."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def list_ingresses(
        self,
        *,
        room: str | Unset = UNSET,
        status: IngressStatus | Unset = UNSET,
        input_type: InputType | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> IngressPage:
        """List endpoints, newest first, deleted ones too"""

        return _list_ingresses.parse(
            self._send(
                "list_ingresses",
                _list_ingresses.request(
                    room=room,
                    status=status,
                    input_type=input_type,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_ingresses(
        self,
        *,
        room: str | Unset = UNSET,
        status: IngressStatus | Unset = UNSET,
        input_type: InputType | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[Ingress]:
        """List endpoints, newest first, deleted ones too

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_ingresses(
                room=room,
                status=status,
                input_type=input_type,
                limit=limit,
                offset=offset,
            )
            for item in page.ingresses:
                yield item
            offset += len(page.ingresses)
            if not page.has_more or not page.ingresses:
                return

    def get_ingress(
        self,
        ingress_id: str,
    ) -> Ingress:
        """Read an endpoint; the media plane is asked for its status"""

        return _get_ingress.parse(
            self._send(
                "get_ingress",
                _get_ingress.request(
                    ingress_id=ingress_id,
                ),
            )
        )

    def delete_ingress(
        self,
        ingress_id: str,
    ) -> None:
        """Delete an endpoint; its stream key is invalid at once"""

        self._send(
            "delete_ingress",
            _delete_ingress.request(
                ingress_id=ingress_id,
            ),
        )

    def create_ingress(
        self,
        name: str,
        body: CreateIngress,
    ) -> IngressCreated:
        """Create an endpoint for an encoder; the answer shows its stream key, this once"""

        return _create_ingress.parse(
            self._send(
                "create_ingress",
                _create_ingress.request(
                    name=name,
                    body=body,
                ),
            )
        )


class AsyncIngressCalls:
    """The calls of ingress."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def list_ingresses(
        self,
        *,
        room: str | Unset = UNSET,
        status: IngressStatus | Unset = UNSET,
        input_type: InputType | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> IngressPage:
        """List endpoints, newest first, deleted ones too"""

        return _list_ingresses.parse(
            await self._send(
                "list_ingresses",
                _list_ingresses.request(
                    room=room,
                    status=status,
                    input_type=input_type,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_ingresses(
        self,
        *,
        room: str | Unset = UNSET,
        status: IngressStatus | Unset = UNSET,
        input_type: InputType | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[Ingress]:
        """List endpoints, newest first, deleted ones too

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_ingresses(
                room=room,
                status=status,
                input_type=input_type,
                limit=limit,
                offset=offset,
            )
            for item in page.ingresses:
                yield item
            offset += len(page.ingresses)
            if not page.has_more or not page.ingresses:
                return

    async def get_ingress(
        self,
        ingress_id: str,
    ) -> Ingress:
        """Read an endpoint; the media plane is asked for its status"""

        return _get_ingress.parse(
            await self._send(
                "get_ingress",
                _get_ingress.request(
                    ingress_id=ingress_id,
                ),
            )
        )

    async def delete_ingress(
        self,
        ingress_id: str,
    ) -> None:
        """Delete an endpoint; its stream key is invalid at once"""

        await self._send(
            "delete_ingress",
            _delete_ingress.request(
                ingress_id=ingress_id,
            ),
        )

    async def create_ingress(
        self,
        name: str,
        body: CreateIngress,
    ) -> IngressCreated:
        """Create an endpoint for an encoder; the answer shows its stream key, this once"""

        return _create_ingress.parse(
            await self._send(
                "create_ingress",
                _create_ingress.request(
                    name=name,
                    body=body,
                ),
            )
        )
