from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="CreateWebhookEndpoint")


@_attrs_define
class CreateWebhookEndpoint:
    """A webhook endpoint to register."""

    url: str
    """ An absolute http or https url without user name and password. """

    def to_dict(self) -> dict[str, Any]:
        url = self.url

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "url": url,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        url = d.pop("url")

        create_webhook_endpoint = cls(
            url=url,
        )

        return create_webhook_endpoint
