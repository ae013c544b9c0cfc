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

from ..models.ingress_status import IngressStatus, check_ingress_status

T = TypeVar("T", bound="IngressStartedEvent")


@_attrs_define
class IngressStartedEvent:
    """An encoder has connected and publishes."""

    type_: Literal["ingress.started"]
    project_id: str
    """ The id of a project: `prj_` and twelve lower-case hex digits. """
    room: str
    """ The name of a room, which a project uses once. """
    occurred_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    ingress_id: str
    """ The id that the media plane gives to one ingress endpoint. """
    ingress_status: IngressStatus
    """ The status of an ingress endpoint. """
    participant_identity: str
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        type_ = self.type_

        project_id = self.project_id

        room = self.room

        occurred_at = self.occurred_at.isoformat()

        ingress_id = self.ingress_id

        ingress_status: str = self.ingress_status

        participant_identity = self.participant_identity

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "type": type_,
                "project_id": project_id,
                "room": room,
                "occurred_at": occurred_at,
                "ingress_id": ingress_id,
                "ingress_status": ingress_status,
                "participant_identity": participant_identity,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        type_ = cast(Literal["ingress.started"], d.pop("type"))
        if type_ != "ingress.started":
            raise ValueError(f"type must match const 'ingress.started', got '{type_}'")

        project_id = d.pop("project_id")

        room = d.pop("room")

        occurred_at = datetime.datetime.fromisoformat(d.pop("occurred_at"))

        ingress_id = d.pop("ingress_id")

        ingress_status = check_ingress_status(d.pop("ingress_status"))

        participant_identity = d.pop("participant_identity")

        ingress_started_event = cls(
            type_=type_,
            project_id=project_id,
            room=room,
            occurred_at=occurred_at,
            ingress_id=ingress_id,
            ingress_status=ingress_status,
            participant_identity=participant_identity,
        )

        ingress_started_event.additional_properties = d
        return ingress_started_event

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
