from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.room_status import RoomStatus, check_room_status
from ..types import UNSET, Unset

T = TypeVar("T", bound="Room")


@_attrs_define
class Room:
    """A room."""

    created_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    empty_timeout_seconds: int
    id: str
    """ The key of a room's record. """
    max_participants: int
    name: str
    """ The name of a room, which a project uses once. """
    namespaced_name: str
    """ The name of a room on the media plane: project id, dot, room name. """
    project_id: str
    """ The id of a project: `prj_` and twelve lower-case hex digits. """
    status: RoomStatus
    """ The status of a room. The only transition is from open to ended. """
    ended_at: datetime.datetime | Unset = UNSET
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    metadata: Any | Unset = UNSET
    started_at: datetime.datetime | Unset = UNSET
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    template_id: None | str | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        created_at = self.created_at.isoformat()

        empty_timeout_seconds = self.empty_timeout_seconds

        id = self.id

        max_participants = self.max_participants

        name = self.name

        namespaced_name = self.namespaced_name

        project_id = self.project_id

        status: str = self.status

        ended_at: str | Unset = UNSET
        if not isinstance(self.ended_at, Unset):
            ended_at = self.ended_at.isoformat()

        metadata = self.metadata

        started_at: str | Unset = UNSET
        if not isinstance(self.started_at, Unset):
            started_at = self.started_at.isoformat()

        template_id: None | str | Unset
        if isinstance(self.template_id, Unset):
            template_id = UNSET
        else:
            template_id = self.template_id

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "created_at": created_at,
                "empty_timeout_seconds": empty_timeout_seconds,
                "id": id,
                "max_participants": max_participants,
                "name": name,
                "namespaced_name": namespaced_name,
                "project_id": project_id,
                "status": status,
            }
        )
        if ended_at is not UNSET:
            field_dict["ended_at"] = ended_at
        if metadata is not UNSET:
            field_dict["metadata"] = metadata
        if started_at is not UNSET:
            field_dict["started_at"] = started_at
        if template_id is not UNSET:
            field_dict["template_id"] = template_id

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        empty_timeout_seconds = d.pop("empty_timeout_seconds")

        id = d.pop("id")

        max_participants = d.pop("max_participants")

        name = d.pop("name")

        namespaced_name = d.pop("namespaced_name")

        project_id = d.pop("project_id")

        status = check_room_status(d.pop("status"))

        _ended_at = d.pop("ended_at", UNSET)
        ended_at: datetime.datetime | Unset
        if isinstance(_ended_at, Unset):
            ended_at = UNSET
        else:
            ended_at = datetime.datetime.fromisoformat(_ended_at)

        metadata = d.pop("metadata", UNSET)

        _started_at = d.pop("started_at", UNSET)
        started_at: datetime.datetime | Unset
        if isinstance(_started_at, Unset):
            started_at = UNSET
        else:
            started_at = datetime.datetime.fromisoformat(_started_at)

        def _parse_template_id(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        template_id = _parse_template_id(d.pop("template_id", UNSET))

        room = cls(
            created_at=created_at,
            empty_timeout_seconds=empty_timeout_seconds,
            id=id,
            max_participants=max_participants,
            name=name,
            namespaced_name=namespaced_name,
            project_id=project_id,
            status=status,
            ended_at=ended_at,
            metadata=metadata,
            started_at=started_at,
            template_id=template_id,
        )

        room.additional_properties = d
        return room

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
