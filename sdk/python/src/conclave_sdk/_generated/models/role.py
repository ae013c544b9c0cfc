from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.role_attributes import RoleAttributes
    from ..models.role_permissions import RolePermissions
    from ..models.role_publish import RolePublish
    from ..models.role_subscribe import RoleSubscribe


T = TypeVar("T", bound="Role")


@_attrs_define
class Role:
    """A role as it is stored, served and turned into grants."""

    hidden: bool
    """ Whether holders are invisible to other participants. """
    max_peer_count: int
    name: str
    """ The name, unique in the template. """
    permissions: RolePermissions
    """ The moderation calls that a role may make. All default to false. """
    priority: int
    publish: RolePublish
    """ The media and data that a role may publish, with all defaults filled in; also the PublishProfile of a token.
    """
    subscribe: RoleSubscribe
    """ The media that a role receives. """
    attributes: RoleAttributes | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        hidden = self.hidden

        max_peer_count = self.max_peer_count

        name = self.name

        permissions = self.permissions.to_dict()

        priority = self.priority

        publish = self.publish.to_dict()

        subscribe = self.subscribe.to_dict()

        attributes: dict[str, Any] | Unset = UNSET
        if not isinstance(self.attributes, Unset):
            attributes = self.attributes.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "hidden": hidden,
                "max_peer_count": max_peer_count,
                "name": name,
                "permissions": permissions,
                "priority": priority,
                "publish": publish,
                "subscribe": subscribe,
            }
        )
        if attributes is not UNSET:
            field_dict["attributes"] = attributes

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.role_attributes import RoleAttributes  # noqa: PLC0415
        from ..models.role_permissions import RolePermissions  # noqa: PLC0415
        from ..models.role_publish import RolePublish  # noqa: PLC0415
        from ..models.role_subscribe import RoleSubscribe  # noqa: PLC0415

        d = dict(src_dict)
        hidden = d.pop("hidden")

        max_peer_count = d.pop("max_peer_count")

        name = d.pop("name")

        permissions = RolePermissions.from_dict(d.pop("permissions"))

        priority = d.pop("priority")

        publish = RolePublish.from_dict(d.pop("publish"))

        subscribe = RoleSubscribe.from_dict(d.pop("subscribe"))

        _attributes = d.pop("attributes", UNSET)
        attributes: RoleAttributes | Unset
        if isinstance(_attributes, Unset):
            attributes = UNSET
        else:
            attributes = RoleAttributes.from_dict(_attributes)

        role = cls(
            hidden=hidden,
            max_peer_count=max_peer_count,
            name=name,
            permissions=permissions,
            priority=priority,
            publish=publish,
            subscribe=subscribe,
            attributes=attributes,
        )

        role.additional_properties = d
        return role

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
