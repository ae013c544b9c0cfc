from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.ingress_status import IngressStatus, check_ingress_status
from ..models.input_type import InputType, check_input_type
from ..types import UNSET, Unset

T = TypeVar("T", bound="IngressCreated")


@_attrs_define
class IngressCreated:
    """A created ingress endpoint with its stream key."""

    created_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    id: str
    """ The key of an ingress endpoint's record. """
    ingress_id: str
    """ The id that the media plane gives to one ingress endpoint. """
    input_type: InputType
    """ The protocol by which an encoder publishes. """
    namespaced_room: str
    """ The name of a room on the media plane: project id, dot, room name. """
    participant_identity: str
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    project_id: str
    """ The id of a project: `prj_` and twelve lower-case hex digits. """
    room: str
    """ The name of a room, which a project uses once. """
    status: IngressStatus
    """ The status of an ingress endpoint. """
    updated_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    url: str
    """ Where an encoder publishes, with `REDACTED` for the stream key. """
    stream_key: str
    """ Shown this once. """
    deleted_at: datetime.datetime | Unset = UNSET
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    error: str | Unset = UNSET
    """ What went wrong; present while `status` is `error`. """
    participant_name: str | Unset = UNSET
    """ Absent when none was given. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        created_at = self.created_at.isoformat()

        id = self.id

        ingress_id = self.ingress_id

        input_type: str = self.input_type

        namespaced_room = self.namespaced_room

        participant_identity = self.participant_identity

        project_id = self.project_id

        room = self.room

        status: str = self.status

        updated_at = self.updated_at.isoformat()

        url = self.url

        stream_key = self.stream_key

        deleted_at: str | Unset = UNSET
        if not isinstance(self.deleted_at, Unset):
            deleted_at = self.deleted_at.isoformat()

        error = self.error

        participant_name = self.participant_name

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "created_at": created_at,
                "id": id,
                "ingress_id": ingress_id,
                "input_type": input_type,
                "namespaced_room": namespaced_room,
                "participant_identity": participant_identity,
                "project_id": project_id,
                "room": room,
                "status": status,
                "updated_at": updated_at,
                "url": url,
                "stream_key": stream_key,
            }
        )
        if deleted_at is not UNSET:
            field_dict["deleted_at"] = deleted_at
        if error is not UNSET:
            field_dict["error"] = error
        if participant_name is not UNSET:
            field_dict["participant_name"] = participant_name

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        id = d.pop("id")

        ingress_id = d.pop("ingress_id")

        input_type = check_input_type(d.pop("input_type"))

        namespaced_room = d.pop("namespaced_room")

        participant_identity = d.pop("participant_identity")

        project_id = d.pop("project_id")

        room = d.pop("room")

        status = check_ingress_status(d.pop("status"))

        updated_at = datetime.datetime.fromisoformat(d.pop("updated_at"))

        url = d.pop("url")

        stream_key = d.pop("stream_key")

        _deleted_at = d.pop("deleted_at", UNSET)
        deleted_at: datetime.datetime | Unset
        if isinstance(_deleted_at, Unset):
            deleted_at = UNSET
        else:
            deleted_at = datetime.datetime.fromisoformat(_deleted_at)

        error = d.pop("error", UNSET)

        participant_name = d.pop("participant_name", UNSET)

        ingress_created = cls(
            created_at=created_at,
            id=id,
            ingress_id=ingress_id,
            input_type=input_type,
            namespaced_room=namespaced_room,
            participant_identity=participant_identity,
            project_id=project_id,
            room=room,
            status=status,
            updated_at=updated_at,
            url=url,
            stream_key=stream_key,
            deleted_at=deleted_at,
            error=error,
            participant_name=participant_name,
        )

        ingress_created.additional_properties = d
        return ingress_created

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
