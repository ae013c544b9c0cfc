from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.create_webhook_endpoint import CreateWebhookEndpoint
from ...models.delivery_status import DeliveryStatus, check_delivery_status
from ...models.event_type import EventType, check_event_type
from ...models.webhook_delivery import WebhookDelivery
from ...models.webhook_delivery_page import WebhookDeliveryPage
from ...models.webhook_endpoint import WebhookEndpoint
from ...models.webhook_endpoint_created import WebhookEndpointCreated
from ...models.webhook_endpoint_page import WebhookEndpointPage
from ...types import UNSET, Unset
from . import create_webhook_endpoint as _create_webhook_endpoint
from . import delete_webhook_endpoint as _delete_webhook_endpoint
from . import list_webhook_deliveries as _list_webhook_deliveries
from . import list_webhook_endpoints as _list_webhook_endpoints
from . import retry_webhook_delivery as _retry_webhook_delivery


class WebhooksCalls:
    """The calls of webhooks."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def list_webhook_deliveries(
        self,
        *,
        status: DeliveryStatus | Unset = UNSET,
        event_type: EventType | Unset = UNSET,
        endpoint_id: str | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> WebhookDeliveryPage:
        """List deliveries, newest first"""

        return _list_webhook_deliveries.parse(
            self._send(
                "list_webhook_deliveries",
                _list_webhook_deliveries.request(
                    status=status,
                    event_type=event_type,
                    endpoint_id=endpoint_id,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_webhook_deliveries(
        self,
        *,
        status: DeliveryStatus | Unset = UNSET,
        event_type: EventType | Unset = UNSET,
        endpoint_id: str | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[WebhookDelivery]:
        """List deliveries, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_webhook_deliveries(
                status=status,
                event_type=event_type,
                endpoint_id=endpoint_id,
                limit=limit,
                offset=offset,
            )
            for item in page.webhook_deliveries:
                yield item
            offset += len(page.webhook_deliveries)
            if not page.has_more or not page.webhook_deliveries:
                return

    def retry_webhook_delivery(
        self,
        id: str,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> WebhookDelivery:
        """Queue a failed delivery again"""

        return _retry_webhook_delivery.parse(
            self._send(
                "retry_webhook_delivery",
                _retry_webhook_delivery.request(
                    id=id,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    def list_webhook_endpoints(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> WebhookEndpointPage:
        """List webhook endpoints"""

        return _list_webhook_endpoints.parse(
            self._send(
                "list_webhook_endpoints",
                _list_webhook_endpoints.request(
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_webhook_endpoints(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[WebhookEndpoint]:
        """List webhook endpoints

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_webhook_endpoints(
                limit=limit,
                offset=offset,
            )
            for item in page.webhook_endpoints:
                yield item
            offset += len(page.webhook_endpoints)
            if not page.has_more or not page.webhook_endpoints:
                return

    def create_webhook_endpoint(
        self,
        body: CreateWebhookEndpoint,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> WebhookEndpointCreated:
        """Register a webhook endpoint"""

        return _create_webhook_endpoint.parse(
            self._send(
                "create_webhook_endpoint",
                _create_webhook_endpoint.request(
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    def delete_webhook_endpoint(
        self,
        id: str,
    ) -> None:
        """Stop delivery to an endpoint; what is queued for it is dropped"""

        self._send(
            "delete_webhook_endpoint",
            _delete_webhook_endpoint.request(
                id=id,
            ),
        )


class AsyncWebhooksCalls:
    """The calls of webhooks."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def list_webhook_deliveries(
        self,
        *,
        status: DeliveryStatus | Unset = UNSET,
        event_type: EventType | Unset = UNSET,
        endpoint_id: str | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> WebhookDeliveryPage:
        """List deliveries, newest first"""

        return _list_webhook_deliveries.parse(
            await self._send(
                "list_webhook_deliveries",
                _list_webhook_deliveries.request(
                    status=status,
                    event_type=event_type,
                    endpoint_id=endpoint_id,
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_webhook_deliveries(
        self,
        *,
        status: DeliveryStatus | Unset = UNSET,
        event_type: EventType | Unset = UNSET,
        endpoint_id: str | Unset = UNSET,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[WebhookDelivery]:
        """List deliveries, newest first

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_webhook_deliveries(
                status=status,
                event_type=event_type,
                endpoint_id=endpoint_id,
                limit=limit,
                offset=offset,
            )
            for item in page.webhook_deliveries:
                yield item
            offset += len(page.webhook_deliveries)
            if not page.has_more or not page.webhook_deliveries:
                return

    async def retry_webhook_delivery(
        self,
        id: str,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> WebhookDelivery:
        """Queue a failed delivery again"""

        return _retry_webhook_delivery.parse(
            await self._send(
                "retry_webhook_delivery",
                _retry_webhook_delivery.request(
                    id=id,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    async def list_webhook_endpoints(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> WebhookEndpointPage:
        """List webhook endpoints"""

        return _list_webhook_endpoints.parse(
            await self._send(
                "list_webhook_endpoints",
                _list_webhook_endpoints.request(
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_webhook_endpoints(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[WebhookEndpoint]:
        """List webhook endpoints

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_webhook_endpoints(
                limit=limit,
                offset=offset,
            )
            for item in page.webhook_endpoints:
                yield item
            offset += len(page.webhook_endpoints)
            if not page.has_more or not page.webhook_endpoints:
                return

    async def create_webhook_endpoint(
        self,
        body: CreateWebhookEndpoint,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> WebhookEndpointCreated:
        """Register a webhook endpoint"""

        return _create_webhook_endpoint.parse(
            await self._send(
                "create_webhook_endpoint",
                _create_webhook_endpoint.request(
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    async def delete_webhook_endpoint(
        self,
        id: str,
    ) -> None:
        """Stop delivery to an endpoint; what is queued for it is dropped"""

        await self._send(
            "delete_webhook_endpoint",
            _delete_webhook_endpoint.request(
                id=id,
            ),
        )
