from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="CreateCode")


@_attrs_define
class CreateCode:
    """A room code to create."""

    role: str
    """ The name of a role, unique in its template. """
    expires_at: datetime.datetime | Unset = UNSET
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    identity: str | Unset = UNSET
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    max_uses: int | None | Unset = UNSET
    """ How often it can be exchanged; null or left out, there is no cap. """
    ttl_seconds: int | Unset = UNSET
    """ Default 86400. Not beside `expires_at`. """

    def to_dict(self) -> dict[str, Any]:
        role = self.role

        expires_at: str | Unset = UNSET
        if not isinstance(self.expires_at, Unset):
            expires_at = self.expires_at.isoformat()

        identity = self.identity

        max_uses: int | None | Unset
        if isinstance(self.max_uses, Unset):
            max_uses = UNSET
        else:
            max_uses = self.max_uses

        ttl_seconds = self.ttl_seconds

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "role": role,
            }
        )
        if expires_at is not UNSET:
            field_dict["expires_at"] = expires_at
        if identity is not UNSET:
            field_dict["identity"] = identity
        if max_uses is not UNSET:
            field_dict["max_uses"] = max_uses
        if ttl_seconds is not UNSET:
            field_dict["ttl_seconds"] = ttl_seconds

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        role = d.pop("role")

        _expires_at = d.pop("expires_at", UNSET)
        expires_at: datetime.datetime | Unset
        if isinstance(_expires_at, Unset):
            expires_at = UNSET
        else:
            expires_at = datetime.datetime.fromisoformat(_expires_at)

        identity = d.pop("identity", UNSET)

        def _parse_max_uses(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        max_uses = _parse_max_uses(d.pop("max_uses", UNSET))

        ttl_seconds = d.pop("ttl_seconds", UNSET)

        create_code = cls(
            role=role,
            expires_at=expires_at,
            identity=identity,
            max_uses=max_uses,
            ttl_seconds=ttl_seconds,
        )

        return create_code
