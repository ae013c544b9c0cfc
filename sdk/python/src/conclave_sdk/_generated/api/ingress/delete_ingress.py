from typing import Any

from ...._paths import segment


def request(
    ingress_id: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/ingress/{ingress_id}".format(
            ingress_id=segment("ingress_id", ingress_id),
        ),
    }

    return _kwargs
