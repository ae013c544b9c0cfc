from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import (
    Any,
    Literal,
    TypeVar,
    cast,
)

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

T = TypeVar("T", bound="WebhookTestEvent")


@_attrs_define
class WebhookTestEvent:
    """Sent by the console to test an endpoint. It is about no room."""

    type_: Literal["webhook.test"]
    project_id: str
    """ The id of a project: `prj_` and twelve lower-case hex digits. """
    occurred_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    room: str | Unset = UNSET
    """ The name of a room, which a project uses once. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        type_ = self.type_

        project_id = self.project_id

        occurred_at = self.occurred_at.isoformat()

        room = self.room

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "type": type_,
                "project_id": project_id,
                "occurred_at": occurred_at,
            }
        )
        if room is not UNSET:
            field_dict["room"] = room

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        type_ = cast(Literal["webhook.test"], d.pop("type"))
        if type_ != "webhook.test":
            raise ValueError(f"type must match const 'webhook.test', got '{type_}'")

        project_id = d.pop("project_id")

        occurred_at = datetime.datetime.fromisoformat(d.pop("occurred_at"))

        room = d.pop("room", UNSET)

        webhook_test_event = cls(
            type_=type_,
            project_id=project_id,
            occurred_at=occurred_at,
            room=room,
        )

        webhook_test_event.additional_properties = d
        return webhook_test_event

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
