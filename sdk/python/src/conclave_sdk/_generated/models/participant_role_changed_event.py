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

T = TypeVar("T", bound="ParticipantRoleChangedEvent")


@_attrs_define
class ParticipantRoleChangedEvent:
    """A participant has been given another role."""

    type_: Literal["participant.role_changed"]
    project_id: str
    """ The id of a project: `prj_` and twelve lower-case hex digits. """
    room: str
    """ The name of a room, which a project uses once. """
    occurred_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    participant_identity: str
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    participant_sid: str
    """ The id that the media plane gives to one join of a participant. """
    role: str | Unset = UNSET
    """ The name of a role, unique in its template. """
    previous_role: str | Unset = UNSET
    """ The name of a role, unique in its template. """
    changed_by_identity: str | Unset = UNSET
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    changed_by_api_key_prefix: str | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        type_ = self.type_

        project_id = self.project_id

        room = self.room

        occurred_at = self.occurred_at.isoformat()

        participant_identity = self.participant_identity

        participant_sid = self.participant_sid

        role = self.role

        previous_role = self.previous_role

        changed_by_identity = self.changed_by_identity

        changed_by_api_key_prefix = self.changed_by_api_key_prefix

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "type": type_,
                "project_id": project_id,
                "room": room,
                "occurred_at": occurred_at,
                "participant_identity": participant_identity,
                "participant_sid": participant_sid,
            }
        )
        if role is not UNSET:
            field_dict["role"] = role
        if previous_role is not UNSET:
            field_dict["previous_role"] = previous_role
        if changed_by_identity is not UNSET:
            field_dict["changed_by_identity"] = changed_by_identity
        if changed_by_api_key_prefix is not UNSET:
            field_dict["changed_by_api_key_prefix"] = changed_by_api_key_prefix

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        type_ = cast(Literal["participant.role_changed"], d.pop("type"))
        if type_ != "participant.role_changed":
            raise ValueError(f"type must match const 'participant.role_changed', got '{type_}'")

        project_id = d.pop("project_id")

        room = d.pop("room")

        occurred_at = datetime.datetime.fromisoformat(d.pop("occurred_at"))

        participant_identity = d.pop("participant_identity")

        participant_sid = d.pop("participant_sid")

        role = d.pop("role", UNSET)

        previous_role = d.pop("previous_role", UNSET)

        changed_by_identity = d.pop("changed_by_identity", UNSET)

        changed_by_api_key_prefix = d.pop("changed_by_api_key_prefix", UNSET)

        participant_role_changed_event = cls(
            type_=type_,
            project_id=project_id,
            room=room,
            occurred_at=occurred_at,
            participant_identity=participant_identity,
            participant_sid=participant_sid,
            role=role,
            previous_role=previous_role,
            changed_by_identity=changed_by_identity,
            changed_by_api_key_prefix=changed_by_api_key_prefix,
        )

        participant_role_changed_event.additional_properties = d
        return participant_role_changed_event

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
