from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.create_template_roles import CreateTemplateRoles
    from ..models.template_settings_input import TemplateSettingsInput


T = TypeVar("T", bound="CreateTemplate")


@_attrs_define
class CreateTemplate:
    """A template to create."""

    name: str
    """ The name of a template, unique in its project. """
    roles: CreateTemplateRoles | Unset = UNSET
    """ Keyed by role name. """
    settings: TemplateSettingsInput | Unset = UNSET
    """ Settings of a template to create or change. """

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        roles: dict[str, Any] | Unset = UNSET
        if not isinstance(self.roles, Unset):
            roles = self.roles.to_dict()

        settings: dict[str, Any] | Unset = UNSET
        if not isinstance(self.settings, Unset):
            settings = self.settings.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
            }
        )
        if roles is not UNSET:
            field_dict["roles"] = roles
        if settings is not UNSET:
            field_dict["settings"] = settings

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.create_template_roles import CreateTemplateRoles  # noqa: PLC0415
        from ..models.template_settings_input import TemplateSettingsInput  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        _roles = d.pop("roles", UNSET)
        roles: CreateTemplateRoles | Unset
        if isinstance(_roles, Unset):
            roles = UNSET
        else:
            roles = CreateTemplateRoles.from_dict(_roles)

        _settings = d.pop("settings", UNSET)
        settings: TemplateSettingsInput | Unset
        if isinstance(_settings, Unset):
            settings = UNSET
        else:
            settings = TemplateSettingsInput.from_dict(_settings)

        create_template = cls(
            name=name,
            roles=roles,
            settings=settings,
        )

        return create_template
