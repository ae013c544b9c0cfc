import datetime
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.plan_status import PlanStatus
from ...models.usage import Usage
from ...types import UNSET, Unset
from . import get_plan as _get_plan
from . import get_usage as _get_usage


class UsageCalls:
    """The calls of usage."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def get_plan(
        self,
    ) -> PlanStatus:
        """Read the project's status under its plan"""

        return _get_plan.parse(self._send("get_plan", _get_plan.request()))

    def get_usage(
        self,
        *,
        from_: datetime.date | Unset = UNSET,
        to: datetime.date | Unset = UNSET,
    ) -> Usage:
        """Read participant minutes by day"""

        return _get_usage.parse(
            self._send(
                "get_usage",
                _get_usage.request(
                    from_=from_,
                    to=to,
                ),
            )
        )


class AsyncUsageCalls:
    """The calls of usage."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def get_plan(
        self,
    ) -> PlanStatus:
        """Read the project's status under its plan"""

        return _get_plan.parse(await self._send("get_plan", _get_plan.request()))

    async def get_usage(
        self,
        *,
        from_: datetime.date | Unset = UNSET,
        to: datetime.date | Unset = UNSET,
    ) -> Usage:
        """Read participant minutes by day"""

        return _get_usage.parse(
            await self._send(
                "get_usage",
                _get_usage.request(
                    from_=from_,
                    to=to,
                ),
            )
        )
