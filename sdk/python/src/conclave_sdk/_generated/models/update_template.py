from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.template_settings_input import TemplateSettingsInput
    from ..models.update_template_roles import UpdateTemplateRoles


T = TypeVar("T", bound="UpdateTemplate")


@_attrs_define
class UpdateTemplate:
    """The changed parts of a template. Roles that are sent are written whole, roles left out are untouched."""

    name: None | str | Unset = UNSET
    roles: UpdateTemplateRoles | Unset = UNSET
    """ Keyed by role name. """
    settings: TemplateSettingsInput | Unset = UNSET
    """ Settings of a template to create or change. """

    def to_dict(self) -> dict[str, Any]:
        name: None | str | Unset
        if isinstance(self.name, Unset):
            name = UNSET
        else:
            name = self.name

        roles: dict[str, Any] | Unset = UNSET
        if not isinstance(self.roles, Unset):
            roles = self.roles.to_dict()

        settings: dict[str, Any] | Unset = UNSET
        if not isinstance(self.settings, Unset):
            settings = self.settings.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if name is not UNSET:
            field_dict["name"] = name
        if roles is not UNSET:
            field_dict["roles"] = roles
        if settings is not UNSET:
            field_dict["settings"] = settings

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.template_settings_input import TemplateSettingsInput  # noqa: PLC0415
        from ..models.update_template_roles import UpdateTemplateRoles  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_name(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        name = _parse_name(d.pop("name", UNSET))

        _roles = d.pop("roles", UNSET)
        roles: UpdateTemplateRoles | Unset
        if isinstance(_roles, Unset):
            roles = UNSET
        else:
            roles = UpdateTemplateRoles.from_dict(_roles)

        _settings = d.pop("settings", UNSET)
        settings: TemplateSettingsInput | Unset
        if isinstance(_settings, Unset):
            settings = UNSET
        else:
            settings = TemplateSettingsInput.from_dict(_settings)

        update_template = cls(
            name=name,
            roles=roles,
            settings=settings,
        )

        return update_template
