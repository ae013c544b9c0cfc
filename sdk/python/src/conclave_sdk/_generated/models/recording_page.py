from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.recording import Recording


T = TypeVar("T", bound="RecordingPage")


@_attrs_define
class RecordingPage:
    """A page of a list."""

    has_more: bool
    limit: int
    offset: int
    recordings: list[Recording]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        has_more = self.has_more

        limit = self.limit

        offset = self.offset

        recordings = []
        for recordings_item_data in self.recordings:
            recordings_item = recordings_item_data.to_dict()
            recordings.append(recordings_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "has_more": has_more,
                "limit": limit,
                "offset": offset,
                "recordings": recordings,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.recording import Recording  # noqa: PLC0415

        d = dict(src_dict)
        has_more = d.pop("has_more")

        limit = d.pop("limit")

        offset = d.pop("offset")

        recordings = []
        _recordings = d.pop("recordings")
        for recordings_item_data in _recordings:
            recordings_item = Recording.from_dict(recordings_item_data)

            recordings.append(recordings_item)

        recording_page = cls(
            has_more=has_more,
            limit=limit,
            offset=offset,
            recordings=recordings,
        )

        recording_page.additional_properties = d
        return recording_page

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
