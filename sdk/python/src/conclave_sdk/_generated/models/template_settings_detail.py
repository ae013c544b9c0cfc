from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.region import Region, check_region

T = TypeVar("T", bound="TemplateSettingsDetail")


@_attrs_define
class TemplateSettingsDetail:
    """A template's settings, and the values they can have."""

    allowed_regions: list[Region]
    region: Region
    """ A media region. Stored and validated; it does not change where traffic goes today. """
    region_enforced: bool
    """ False while a single media region runs. """
    region_note: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        allowed_regions = []
        for allowed_regions_item_data in self.allowed_regions:
            allowed_regions_item: str = allowed_regions_item_data
            allowed_regions.append(allowed_regions_item)

        region: str = self.region

        region_enforced = self.region_enforced

        region_note = self.region_note

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "allowed_regions": allowed_regions,
                "region": region,
                "region_enforced": region_enforced,
                "region_note": region_note,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        allowed_regions = []
        _allowed_regions = d.pop("allowed_regions")
        for allowed_regions_item_data in _allowed_regions:
            allowed_regions_item = check_region(allowed_regions_item_data)

            allowed_regions.append(allowed_regions_item)

        region = check_region(d.pop("region"))

        region_enforced = d.pop("region_enforced")

        region_note = d.pop("region_note")

        template_settings_detail = cls(
            allowed_regions=allowed_regions,
            region=region,
            region_enforced=region_enforced,
            region_note=region_note,
        )

        template_settings_detail.additional_properties = d
        return template_settings_detail

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
