from typing import Any

import httpx

from ...._paths import segment
from ...models.template_settings_detail import TemplateSettingsDetail


def request(
    id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/templates/{id}/settings".format(
            id=segment("id", id),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> TemplateSettingsDetail:
    response_200 = TemplateSettingsDetail.from_dict(response.json())

    return response_200
