from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

T = TypeVar("T", bound="RoleChange")


@_attrs_define
class RoleChange:
    """One change of a participant's role; exactly one of `changed_by_identity` and `changed_by_api_key_prefix` is present."""

    created_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    id: str
    """ The id of a change of a participant's role. """
    participant_identity: str
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    participant_sid: str
    """ The id that the media plane gives to one join of a participant. """
    role: str
    """ The name of a role, unique in its template. """
    room: str
    """ The name of a room, which a project uses once. """
    changed_by_api_key_prefix: str | Unset = UNSET
    """ Set when a project API key made the change; `operator` for one made in the console. """
    changed_by_identity: str | Unset = UNSET
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    previous_role: str | Unset = UNSET
    """ The name of a role, unique in its template. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        created_at = self.created_at.isoformat()

        id = self.id

        participant_identity = self.participant_identity

        participant_sid = self.participant_sid

        role = self.role

        room = self.room

        changed_by_api_key_prefix = self.changed_by_api_key_prefix

        changed_by_identity = self.changed_by_identity

        previous_role = self.previous_role

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "created_at": created_at,
                "id": id,
                "participant_identity": participant_identity,
                "participant_sid": participant_sid,
                "role": role,
                "room": room,
            }
        )
        if changed_by_api_key_prefix is not UNSET:
            field_dict["changed_by_api_key_prefix"] = changed_by_api_key_prefix
        if changed_by_identity is not UNSET:
            field_dict["changed_by_identity"] = changed_by_identity
        if previous_role is not UNSET:
            field_dict["previous_role"] = previous_role

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        id = d.pop("id")

        participant_identity = d.pop("participant_identity")

        participant_sid = d.pop("participant_sid")

        role = d.pop("role")

        room = d.pop("room")

        changed_by_api_key_prefix = d.pop("changed_by_api_key_prefix", UNSET)

        changed_by_identity = d.pop("changed_by_identity", UNSET)

        previous_role = d.pop("previous_role", UNSET)

        role_change = cls(
            created_at=created_at,
            id=id,
            participant_identity=participant_identity,
            participant_sid=participant_sid,
            role=role,
            room=room,
            changed_by_api_key_prefix=changed_by_api_key_prefix,
            changed_by_identity=changed_by_identity,
            previous_role=previous_role,
        )

        role_change.additional_properties = d
        return role_change

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
