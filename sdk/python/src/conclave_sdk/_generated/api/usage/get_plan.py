from typing import Any

import httpx

from ...models.plan_status import PlanStatus


def request() -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/plan",
    }

    return _kwargs


def parse(response: httpx.Response) -> PlanStatus:
    response_200 = PlanStatus.from_dict(response.json())

    return response_200
