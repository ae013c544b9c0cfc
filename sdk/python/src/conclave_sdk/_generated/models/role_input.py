from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.role_attributes import RoleAttributes
    from ..models.role_permissions import RolePermissions
    from ..models.role_publish_input import RolePublishInput
    from ..models.role_subscribe_input import RoleSubscribeInput


T = TypeVar("T", bound="RoleInput")


@_attrs_define
class RoleInput:
    """A role as a caller sends it."""

    attributes: RoleAttributes | Unset = UNSET
    hidden: bool | Unset = UNSET
    """ Whether holders are invisible to other participants; default false. """
    max_peer_count: int | Unset = UNSET
    name: str | Unset = UNSET
    """ The name of a role, unique in its template. """
    permissions: RolePermissions | Unset = UNSET
    """ The moderation calls that a role may make. All default to false. """
    priority: int | Unset = UNSET
    publish: RolePublishInput | Unset = UNSET
    """ RolePublish as a caller sends it. """
    subscribe: RoleSubscribeInput | Unset = UNSET
    """ RoleSubscribe as a caller sends it. """

    def to_dict(self) -> dict[str, Any]:
        attributes: dict[str, Any] | Unset = UNSET
        if not isinstance(self.attributes, Unset):
            attributes = self.attributes.to_dict()

        hidden = self.hidden

        max_peer_count = self.max_peer_count

        name = self.name

        permissions: dict[str, Any] | Unset = UNSET
        if not isinstance(self.permissions, Unset):
            permissions = self.permissions.to_dict()

        priority = self.priority

        publish: dict[str, Any] | Unset = UNSET
        if not isinstance(self.publish, Unset):
            publish = self.publish.to_dict()

        subscribe: dict[str, Any] | Unset = UNSET
        if not isinstance(self.subscribe, Unset):
            subscribe = self.subscribe.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if attributes is not UNSET:
            field_dict["attributes"] = attributes
        if hidden is not UNSET:
            field_dict["hidden"] = hidden
        if max_peer_count is not UNSET:
            field_dict["max_peer_count"] = max_peer_count
        if name is not UNSET:
            field_dict["name"] = name
        if permissions is not UNSET:
            field_dict["permissions"] = permissions
        if priority is not UNSET:
            field_dict["priority"] = priority
        if publish is not UNSET:
            field_dict["publish"] = publish
        if subscribe is not UNSET:
            field_dict["subscribe"] = subscribe

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.role_attributes import RoleAttributes  # noqa: PLC0415
        from ..models.role_permissions import RolePermissions  # noqa: PLC0415
        from ..models.role_publish_input import RolePublishInput  # noqa: PLC0415
        from ..models.role_subscribe_input import RoleSubscribeInput  # noqa: PLC0415

        d = dict(src_dict)
        _attributes = d.pop("attributes", UNSET)
        attributes: RoleAttributes | Unset
        if isinstance(_attributes, Unset):
            attributes = UNSET
        else:
            attributes = RoleAttributes.from_dict(_attributes)

        hidden = d.pop("hidden", UNSET)

        max_peer_count = d.pop("max_peer_count", UNSET)

        name = d.pop("name", UNSET)

        _permissions = d.pop("permissions", UNSET)
        permissions: RolePermissions | Unset
        if isinstance(_permissions, Unset):
            permissions = UNSET
        else:
            permissions = RolePermissions.from_dict(_permissions)

        priority = d.pop("priority", UNSET)

        _publish = d.pop("publish", UNSET)
        publish: RolePublishInput | Unset
        if isinstance(_publish, Unset):
            publish = UNSET
        else:
            publish = RolePublishInput.from_dict(_publish)

        _subscribe = d.pop("subscribe", UNSET)
        subscribe: RoleSubscribeInput | Unset
        if isinstance(_subscribe, Unset):
            subscribe = UNSET
        else:
            subscribe = RoleSubscribeInput.from_dict(_subscribe)

        role_input = cls(
            attributes=attributes,
            hidden=hidden,
            max_peer_count=max_peer_count,
            name=name,
            permissions=permissions,
            priority=priority,
            publish=publish,
            subscribe=subscribe,
        )

        return role_input
