from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

from ...models.create_template import CreateTemplate
from ...models.template import Template
from ...models.template_page import TemplatePage
from ...models.template_settings_detail import TemplateSettingsDetail
from ...models.update_template import UpdateTemplate
from ...models.update_template_settings import UpdateTemplateSettings
from ...types import UNSET, Unset
from . import create_template as _create_template
from . import delete_template as _delete_template
from . import get_template as _get_template
from . import get_template_settings as _get_template_settings
from . import list_templates as _list_templates
from . import update_template as _update_template
from . import update_template_settings as _update_template_settings


class TemplatesCalls:
    """The calls of templates."""

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    def list_templates(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> TemplatePage:
        """List templates"""

        return _list_templates.parse(
            self._send(
                "list_templates",
                _list_templates.request(
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    def all_templates(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> Iterator[Template]:
        """List templates

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = self.list_templates(
                limit=limit,
                offset=offset,
            )
            for item in page.templates:
                yield item
            offset += len(page.templates)
            if not page.has_more or not page.templates:
                return

    def create_template(
        self,
        body: CreateTemplate,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Template:
        """Create a template and its roles"""

        return _create_template.parse(
            self._send(
                "create_template",
                _create_template.request(
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    def get_template(
        self,
        id: str,
    ) -> Template:
        """Read a template"""

        return _get_template.parse(
            self._send(
                "get_template",
                _get_template.request(
                    id=id,
                ),
            )
        )

    def delete_template(
        self,
        id: str,
    ) -> None:
        """Delete a template with its roles"""

        self._send(
            "delete_template",
            _delete_template.request(
                id=id,
            ),
        )

    def update_template(
        self,
        id: str,
        body: UpdateTemplate,
    ) -> Template:
        """Change what is sent of a template"""

        return _update_template.parse(
            self._send(
                "update_template",
                _update_template.request(
                    id=id,
                    body=body,
                ),
            )
        )

    def get_template_settings(
        self,
        id: str,
    ) -> TemplateSettingsDetail:
        """Read a template's settings"""

        return _get_template_settings.parse(
            self._send(
                "get_template_settings",
                _get_template_settings.request(
                    id=id,
                ),
            )
        )

    def update_template_settings(
        self,
        id: str,
        body: UpdateTemplateSettings,
    ) -> TemplateSettingsDetail:
        """Set a template's region"""

        return _update_template_settings.parse(
            self._send(
                "update_template_settings",
                _update_template_settings.request(
                    id=id,
                    body=body,
                ),
            )
        )


class AsyncTemplatesCalls:
    """The calls of templates."""

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        raise NotImplementedError

    async def list_templates(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> TemplatePage:
        """List templates"""

        return _list_templates.parse(
            await self._send(
                "list_templates",
                _list_templates.request(
                    limit=limit,
                    offset=offset,
                ),
            )
        )

    async def all_templates(
        self,
        *,
        limit: int | Unset = 50,
        offset: int | Unset = 0,
    ) -> AsyncIterator[Template]:
        """List templates

        Yields the items of all pages, from `offset` on; `limit` is the size of a page."""

        offset = offset or 0
        while True:
            page = await self.list_templates(
                limit=limit,
                offset=offset,
            )
            for item in page.templates:
                yield item
            offset += len(page.templates)
            if not page.has_more or not page.templates:
                return

    async def create_template(
        self,
        body: CreateTemplate,
        *,
        idempotency_key: str | Unset = UNSET,
    ) -> Template:
        """Create a template and its roles"""

        return _create_template.parse(
            await self._send(
                "create_template",
                _create_template.request(
                    body=body,
                    idempotency_key=idempotency_key,
                ),
            )
        )

    async def get_template(
        self,
        id: str,
    ) -> Template:
        """Read a template"""

        return _get_template.parse(
            await self._send(
                "get_template",
                _get_template.request(
                    id=id,
                ),
            )
        )

    async def delete_template(
        self,
        id: str,
    ) -> None:
        """Delete a template with its roles"""

        await self._send(
            "delete_template",
            _delete_template.request(
                id=id,
            ),
        )

    async def update_template(
        self,
        id: str,
        body: UpdateTemplate,
    ) -> Template:
        """Change what is sent of a template"""

        return _update_template.parse(
            await self._send(
                "update_template",
                _update_template.request(
                    id=id,
                    body=body,
                ),
            )
        )

    async def get_template_settings(
        self,
        id: str,
    ) -> TemplateSettingsDetail:
        """Read a template's settings"""

        return _get_template_settings.parse(
            await self._send(
                "get_template_settings",
                _get_template_settings.request(
                    id=id,
                ),
            )
        )

    async def update_template_settings(
        self,
        id: str,
        body: UpdateTemplateSettings,
    ) -> TemplateSettingsDetail:
        """Set a template's region"""

        return _update_template_settings.parse(
            await self._send(
                "update_template_settings",
                _update_template_settings.request(
                    id=id,
                    body=body,
                ),
            )
        )
