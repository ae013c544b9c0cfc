from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="EgressHead")


@_attrs_define
class EgressHead:
    """The first fields of a recording or a broadcast: what it is of."""

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
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        egress_id = self.egress_id

        id = self.id

        namespaced_room = self.namespaced_room

        project_id = self.project_id

        room = self.room

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "egress_id": egress_id,
                "id": id,
                "namespaced_room": namespaced_room,
                "project_id": project_id,
                "room": room,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        egress_id = d.pop("egress_id")

        id = d.pop("id")

        namespaced_room = d.pop("namespaced_room")

        project_id = d.pop("project_id")

        room = d.pop("room")

        egress_head = cls(
            egress_id=egress_id,
            id=id,
            namespaced_room=namespaced_room,
            project_id=project_id,
            room=room,
        )

        egress_head.additional_properties = d
        return egress_head

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
