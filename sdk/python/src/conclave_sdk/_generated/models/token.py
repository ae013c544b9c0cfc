from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.role_publish import RolePublish


T = TypeVar("T", bound="Token")


@_attrs_define
class Token:
    """A room token."""

    expires_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    token: str
    """ The token, a JWT, safe for a browser. """
    url: str
    """ Websocket url the client connects to. """
    publish_profile: RolePublish | Unset = UNSET
    """ The media and data that a role may publish, with all defaults filled in; also the PublishProfile of a token.
    """
    role: str | Unset = UNSET
    """ The name of a role, unique in its template. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        expires_at = self.expires_at.isoformat()

        token = self.token

        url = self.url

        publish_profile: dict[str, Any] | Unset = UNSET
        if not isinstance(self.publish_profile, Unset):
            publish_profile = self.publish_profile.to_dict()

        role = self.role

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "expires_at": expires_at,
                "token": token,
                "url": url,
            }
        )
        if publish_profile is not UNSET:
            field_dict["publish_profile"] = publish_profile
        if role is not UNSET:
            field_dict["role"] = role

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.role_publish import RolePublish  # noqa: PLC0415

        d = dict(src_dict)
        expires_at = datetime.datetime.fromisoformat(d.pop("expires_at"))

        token = d.pop("token")

        url = d.pop("url")

        _publish_profile = d.pop("publish_profile", UNSET)
        publish_profile: RolePublish | Unset
        if isinstance(_publish_profile, Unset):
            publish_profile = UNSET
        else:
            publish_profile = RolePublish.from_dict(_publish_profile)

        role = d.pop("role", UNSET)

        token = cls(
            expires_at=expires_at,
            token=token,
            url=url,
            publish_profile=publish_profile,
            role=role,
        )

        token.additional_properties = d
        return token

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
