from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.template_roles import TemplateRoles
    from ..models.template_settings import TemplateSettings


T = TypeVar("T", bound="Template")


@_attrs_define
class Template:
    """A template."""

    created_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    id: str
    """ The id of a template: `tpl_` and twelve lower-case hex digits. """
    is_default: bool
    """ Used by rooms created without a template; cannot be deleted. """
    name: str
    """ The name of a template, unique in its project. """
    project_id: str
    """ The id of a project: `prj_` and twelve lower-case hex digits. """
    roles: TemplateRoles
    settings: TemplateSettings
    """ A template's settings. """
    updated_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        created_at = self.created_at.isoformat()

        id = self.id

        is_default = self.is_default

        name = self.name

        project_id = self.project_id

        roles = self.roles.to_dict()

        settings = self.settings.to_dict()

        updated_at = self.updated_at.isoformat()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "created_at": created_at,
                "id": id,
                "is_default": is_default,
                "name": name,
                "project_id": project_id,
                "roles": roles,
                "settings": settings,
                "updated_at": updated_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.template_roles import TemplateRoles  # noqa: PLC0415
        from ..models.template_settings import TemplateSettings  # noqa: PLC0415

        d = dict(src_dict)
        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        id = d.pop("id")

        is_default = d.pop("is_default")

        name = d.pop("name")

        project_id = d.pop("project_id")

        roles = TemplateRoles.from_dict(d.pop("roles"))

        settings = TemplateSettings.from_dict(d.pop("settings"))

        updated_at = datetime.datetime.fromisoformat(d.pop("updated_at"))

        template = cls(
            created_at=created_at,
            id=id,
            is_default=is_default,
            name=name,
            project_id=project_id,
            roles=roles,
            settings=settings,
            updated_at=updated_at,
        )

        template.additional_properties = d
        return template

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
