from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.permissions import Permissions


T = TypeVar("T", bound="CreateToken")


@_attrs_define
class CreateToken:
    """A token to mint."""

    identity: str
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    room: str
    """ The name of a room, which a project uses once. """
    metadata: str | Unset = UNSET
    name: str | Unset = UNSET
    permissions: Permissions | Unset = UNSET
    """ Plain grants; each defaults to true. """
    role: str | Unset = UNSET
    """ The name of a role, unique in its template. """
    ttl_seconds: int | Unset = UNSET
    """ Default 3600, clamped to 60..86400; 0 takes the default. """

    def to_dict(self) -> dict[str, Any]:
        identity = self.identity

        room = self.room

        metadata = self.metadata

        name = self.name

        permissions: dict[str, Any] | Unset = UNSET
        if not isinstance(self.permissions, Unset):
            permissions = self.permissions.to_dict()

        role = self.role

        ttl_seconds = self.ttl_seconds

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "identity": identity,
                "room": room,
            }
        )
        if metadata is not UNSET:
            field_dict["metadata"] = metadata
        if name is not UNSET:
            field_dict["name"] = name
        if permissions is not UNSET:
            field_dict["permissions"] = permissions
        if role is not UNSET:
            field_dict["role"] = role
        if ttl_seconds is not UNSET:
            field_dict["ttl_seconds"] = ttl_seconds

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.permissions import Permissions  # noqa: PLC0415

        d = dict(src_dict)
        identity = d.pop("identity")

        room = d.pop("room")

        metadata = d.pop("metadata", UNSET)

        name = d.pop("name", UNSET)

        _permissions = d.pop("permissions", UNSET)
        permissions: Permissions | Unset
        if isinstance(_permissions, Unset):
            permissions = UNSET
        else:
            permissions = Permissions.from_dict(_permissions)

        role = d.pop("role", UNSET)

        ttl_seconds = d.pop("ttl_seconds", UNSET)

        create_token = cls(
            identity=identity,
            room=room,
            metadata=metadata,
            name=name,
            permissions=permissions,
            role=role,
            ttl_seconds=ttl_seconds,
        )

        return create_token
