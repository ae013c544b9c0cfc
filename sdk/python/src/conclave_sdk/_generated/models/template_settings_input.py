from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.region import Region, check_region
from ..types import UNSET, Unset

T = TypeVar("T", bound="TemplateSettingsInput")


@_attrs_define
class TemplateSettingsInput:
    """Settings of a template to create or change."""

    region: Region | Unset = UNSET
    """ A media region. Stored and validated; it does not change where traffic goes today. """

    def to_dict(self) -> dict[str, Any]:
        region: str | Unset = UNSET
        if not isinstance(self.region, Unset):
            region = self.region

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if region is not UNSET:
            field_dict["region"] = region

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        _region = d.pop("region", UNSET)
        region: Region | Unset
        if isinstance(_region, Unset):
            region = UNSET
        else:
            region = check_region(_region)

        template_settings_input = cls(
            region=region,
        )

        return template_settings_input
