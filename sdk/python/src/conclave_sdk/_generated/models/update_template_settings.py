from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.region import Region, check_region

T = TypeVar("T", bound="UpdateTemplateSettings")


@_attrs_define
class UpdateTemplateSettings:
    """A region to set."""

    region: Region
    """ A media region. Stored and validated; it does not change where traffic goes today. """

    def to_dict(self) -> dict[str, Any]:
        region: str = self.region

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "region": region,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        region = check_region(d.pop("region"))

        update_template_settings = cls(
            region=region,
        )

        return update_template_settings
