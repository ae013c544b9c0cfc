from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

T = TypeVar("T", bound="RoomCode")


@_attrs_define
class RoomCode:
    """A room code."""

    code: str
    """ Whole in the answer that creates it, and in no other: `abcd-****-****`. """
    created_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    disabled: bool
    expires_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    id: str
    """ The id of a room code. """
    identity: None | str
    project_id: str
    """ The id of a project: `prj_` and twelve lower-case hex digits. """
    role: str
    """ The name of a role, unique in its template. """
    room: str
    """ The name of a room, which a project uses once. """
    updated_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    uses: int
    """ Number of exchanges so far. """
    max_uses: int | None | Unset = UNSET
    """ Null means no cap. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        code = self.code

        created_at = self.created_at.isoformat()

        disabled = self.disabled

        expires_at = self.expires_at.isoformat()

        id = self.id

        identity: None | str
        identity = self.identity

        project_id = self.project_id

        role = self.role

        room = self.room

        updated_at = self.updated_at.isoformat()

        uses = self.uses

        max_uses: int | None | Unset
        if isinstance(self.max_uses, Unset):
            max_uses = UNSET
        else:
            max_uses = self.max_uses

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "code": code,
                "created_at": created_at,
                "disabled": disabled,
                "expires_at": expires_at,
                "id": id,
                "identity": identity,
                "project_id": project_id,
                "role": role,
                "room": room,
                "updated_at": updated_at,
                "uses": uses,
            }
        )
        if max_uses is not UNSET:
            field_dict["max_uses"] = max_uses

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        code = d.pop("code")

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        disabled = d.pop("disabled")

        expires_at = datetime.datetime.fromisoformat(d.pop("expires_at"))

        id = d.pop("id")

        def _parse_identity(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        identity = _parse_identity(d.pop("identity"))

        project_id = d.pop("project_id")

        role = d.pop("role")

        room = d.pop("room")

        updated_at = datetime.datetime.fromisoformat(d.pop("updated_at"))

        uses = d.pop("uses")

        def _parse_max_uses(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        max_uses = _parse_max_uses(d.pop("max_uses", UNSET))

        room_code = cls(
            code=code,
            created_at=created_at,
            disabled=disabled,
            expires_at=expires_at,
            id=id,
            identity=identity,
            project_id=project_id,
            role=role,
            room=room,
            updated_at=updated_at,
            uses=uses,
            max_uses=max_uses,
        )

        room_code.additional_properties = d
        return room_code

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
