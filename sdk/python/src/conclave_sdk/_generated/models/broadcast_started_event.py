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

from ..models.egress_status import EgressStatus, check_egress_status

T = TypeVar("T", bound="BroadcastStartedEvent")


@_attrs_define
class BroadcastStartedEvent:
    """A broadcast has begun."""

    type_: Literal["broadcast.started"]
    project_id: str
    """ The id of a project: `prj_` and twelve lower-case hex digits. """
    room: str
    """ The name of a room, which a project uses once. """
    occurred_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    egress_id: str
    """ The id that the media plane gives to one recording or broadcast. """
    broadcast_status: EgressStatus
    """ The status of a recording or a broadcast. It only moves forward, and never leaves one of the last four. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        type_ = self.type_

        project_id = self.project_id

        room = self.room

        occurred_at = self.occurred_at.isoformat()

        egress_id = self.egress_id

        broadcast_status: str = self.broadcast_status

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "type": type_,
                "project_id": project_id,
                "room": room,
                "occurred_at": occurred_at,
                "egress_id": egress_id,
                "broadcast_status": broadcast_status,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        type_ = cast(Literal["broadcast.started"], d.pop("type"))
        if type_ != "broadcast.started":
            raise ValueError(f"type must match const 'broadcast.started', got '{type_}'")

        project_id = d.pop("project_id")

        room = d.pop("room")

        occurred_at = datetime.datetime.fromisoformat(d.pop("occurred_at"))

        egress_id = d.pop("egress_id")

        broadcast_status = check_egress_status(d.pop("broadcast_status"))

        broadcast_started_event = cls(
            type_=type_,
            project_id=project_id,
            room=room,
            occurred_at=occurred_at,
            egress_id=egress_id,
            broadcast_status=broadcast_status,
        )

        broadcast_started_event.additional_properties = d
        return broadcast_started_event

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
