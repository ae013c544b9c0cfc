from typing import Any

import httpx

from ...._paths import segment
from ...models.template_settings_detail import TemplateSettingsDetail
from ...models.update_template_settings import UpdateTemplateSettings


def request(
    id: str,
    *,
    body: UpdateTemplateSettings,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}

    _kwargs: dict[str, Any] = {
        "method": "patch",
        "url": "/v1/templates/{id}/settings".format(
            id=segment("id", id),
        ),
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def parse(response: httpx.Response) -> TemplateSettingsDetail:
    response_200 = TemplateSettingsDetail.from_dict(response.json())

    return response_200
