from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.egress_status import EgressStatus, check_egress_status
from ..models.recording_type import RecordingType, check_recording_type
from ..types import UNSET, Unset

T = TypeVar("T", bound="Recording")


@_attrs_define
class Recording:
    """A recording."""

    egress_id: str
    """ The id that the media plane gives to one recording or broadcast. """
    id: str
    """ The key of a recording's or a broadcast's record. """
    namespaced_room: str
    """ The name of a room on the media plane: project id, dot, room name. """
    project_id: str
    """ The id of a project: `prj_` and twelve lower-case hex digits. """
    room: str
    """ The name of a room, which a project uses once. """
    created_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    started_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    filepath: str
    """ Inside the project's recording directory, or the destination. """
    status: EgressStatus
    """ The status of a recording or a broadcast. It only moves forward, and never leaves one of the last four. """
    type_: RecordingType
    """ The part of a room that a recording contains. """
    destination: str | Unset = UNSET
    """ The name of a destination, unique in its template. """
    destination_id: str | Unset = UNSET
    """ The id of a destination: `dst_` and twelve lower-case hex digits. """
    ended_at: datetime.datetime | Unset = UNSET
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    error: str | Unset = UNSET
    """ Set when the status is `failed`. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        egress_id = self.egress_id

        id = self.id

        namespaced_room = self.namespaced_room

        project_id = self.project_id

        room = self.room

        created_at = self.created_at.isoformat()

        started_at = self.started_at.isoformat()

        filepath = self.filepath

        status: str = self.status

        type_: str = self.type_

        destination = self.destination

        destination_id = self.destination_id

        ended_at: str | Unset = UNSET
        if not isinstance(self.ended_at, Unset):
            ended_at = self.ended_at.isoformat()

        error = self.error

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "egress_id": egress_id,
                "id": id,
                "namespaced_room": namespaced_room,
                "project_id": project_id,
                "room": room,
                "created_at": created_at,
                "started_at": started_at,
                "filepath": filepath,
                "status": status,
                "type": type_,
            }
        )
        if destination is not UNSET:
            field_dict["destination"] = destination
        if destination_id is not UNSET:
            field_dict["destination_id"] = destination_id
        if ended_at is not UNSET:
            field_dict["ended_at"] = ended_at
        if error is not UNSET:
            field_dict["error"] = error

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        egress_id = d.pop("egress_id")

        id = d.pop("id")

        namespaced_room = d.pop("namespaced_room")

        project_id = d.pop("project_id")

        room = d.pop("room")

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        started_at = datetime.datetime.fromisoformat(d.pop("started_at"))

        filepath = d.pop("filepath")

        status = check_egress_status(d.pop("status"))

        type_ = check_recording_type(d.pop("type"))

        destination = d.pop("destination", UNSET)

        destination_id = d.pop("destination_id", UNSET)

        _ended_at = d.pop("ended_at", UNSET)
        ended_at: datetime.datetime | Unset
        if isinstance(_ended_at, Unset):
            ended_at = UNSET
        else:
            ended_at = datetime.datetime.fromisoformat(_ended_at)

        error = d.pop("error", UNSET)

        recording = cls(
            egress_id=egress_id,
            id=id,
            namespaced_room=namespaced_room,
            project_id=project_id,
            room=room,
            created_at=created_at,
            started_at=started_at,
            filepath=filepath,
            status=status,
            type_=type_,
            destination=destination,
            destination_id=destination_id,
            ended_at=ended_at,
            error=error,
        )

        recording.additional_properties = d
        return recording

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
