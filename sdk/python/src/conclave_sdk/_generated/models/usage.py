from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.plan_status import PlanStatus
    from ..models.usage_day import UsageDay


T = TypeVar("T", bound="Usage")


@_attrs_define
class Usage:
    """The usage of a project."""

    days: list[UsageDay]
    """ One for each day in range. """
    plan: PlanStatus
    """ The status of a project under its plan. """
    total_participant_minutes: float
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        days = []
        for days_item_data in self.days:
            days_item = days_item_data.to_dict()
            days.append(days_item)

        plan = self.plan.to_dict()

        total_participant_minutes = self.total_participant_minutes

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "days": days,
                "plan": plan,
                "total_participant_minutes": total_participant_minutes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.plan_status import PlanStatus  # noqa: PLC0415
        from ..models.usage_day import UsageDay  # noqa: PLC0415

        d = dict(src_dict)
        days = []
        _days = d.pop("days")
        for days_item_data in _days:
            days_item = UsageDay.from_dict(days_item_data)

            days.append(days_item)

        plan = PlanStatus.from_dict(d.pop("plan"))

        total_participant_minutes = d.pop("total_participant_minutes")

        usage = cls(
            days=days,
            plan=plan,
            total_participant_minutes=total_participant_minutes,
        )

        usage.additional_properties = d
        return usage

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
