from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.role import Role
from ...models.role_input import RoleInput
from ...types import UNSET, Unset
from . import delete_role as _delete_role
from . import get_role as _get_role
from . import put_role as _put_role


class RolesCalls:
    """The calls of roles."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def get_role(
        self,
        id: str,
        name: str,
    ) -> Role:
        """Read a role"""

        return _get_role.parse(
            self._send(
                "get_role",
                _get_role.request(
                    id=id,
                    name=name,
                ),
            )
        )

    def put_role(
        self,
        id: str,
        name: str,
        body: RoleInput,
    ) -> Role:
        """Create or replace a role"""

        return _put_role.parse(
            self._send(
                "put_role",
                _put_role.request(
                    id=id,
                    name=name,
                    body=body,
                ),
            )
        )

    def delete_role(
        self,
        id: str,
        name: str,
    ) -> None:
        """Delete a role"""

        self._send(
            "delete_role",
            _delete_role.request(
                id=id,
                name=name,
            ),
        )


class AsyncRolesCalls:
    """The calls of roles."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def get_role(
        self,
        id: str,
        name: str,
    ) -> Role:
        """Read a role"""

        return _get_role.parse(
            await self._send(
                "get_role",
                _get_role.request(
                    id=id,
                    name=name,
                ),
            )
        )

    async def put_role(
        self,
        id: str,
        name: str,
        body: RoleInput,
    ) -> Role:
        """Create or replace a role"""

        return _put_role.parse(
            await self._send(
                "put_role",
                _put_role.request(
                    id=id,
                    name=name,
                    body=body,
                ),
            )
        )

    async def delete_role(
        self,
        id: str,
        name: str,
    ) -> None:
        """Delete a role"""

        await self._send(
            "delete_role",
            _delete_role.request(
                id=id,
                name=name,
            ),
        )
