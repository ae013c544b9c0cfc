from typing import Any
from urllib.parse import quote

import httpx

from ...models.template_settings_detail import TemplateSettingsDetail


def request(
    id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/templates/{id}/settings".format(
            id=quote(str(id), safe=""),
        ),
    }

    return _kwargs


def parse(response: httpx.Response) -> TemplateSettingsDetail:
    response_200 = TemplateSettingsDetail.from_dict(response.json())

    return response_200
