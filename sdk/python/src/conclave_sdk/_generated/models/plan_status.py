from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.quota_state import QuotaState, check_quota_state
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.plan_features import PlanFeatures
    from ..models.plan_limits import PlanLimits


T = TypeVar("T", bound="PlanStatus")


@_attrs_define
class PlanStatus:
    """The status of a project under its plan."""

    active_rooms: int
    """ Rooms open now. """
    display_name: str
    features: PlanFeatures
    """ The features that a plan includes. """
    limits: PlanLimits
    """ The maximum numbers of a plan; null is unlimited. """
    participant_minutes_used: float
    period_start: datetime.date
    """ A calendar day in UTC, from 1970 on. """
    plan_id: str
    price_ugx: int
    """ Monthly price in Ugandan shillings. """
    quota_state: QuotaState
    """ A project's quota, as the plan status shows it. """
    participant_minutes_remaining: float | None | Unset = UNSET
    """ Null when the plan has no limit. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        active_rooms = self.active_rooms

        display_name = self.display_name

        features = self.features.to_dict()

        limits = self.limits.to_dict()

        participant_minutes_used = self.participant_minutes_used

        period_start = self.period_start.isoformat()

        plan_id = self.plan_id

        price_ugx = self.price_ugx

        quota_state: str = self.quota_state

        participant_minutes_remaining: float | None | Unset
        if isinstance(self.participant_minutes_remaining, Unset):
            participant_minutes_remaining = UNSET
        else:
            participant_minutes_remaining = self.participant_minutes_remaining

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "active_rooms": active_rooms,
                "display_name": display_name,
                "features": features,
                "limits": limits,
                "participant_minutes_used": participant_minutes_used,
                "period_start": period_start,
                "plan_id": plan_id,
                "price_ugx": price_ugx,
                "quota_state": quota_state,
            }
        )
        if participant_minutes_remaining is not UNSET:
            field_dict["participant_minutes_remaining"] = participant_minutes_remaining

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.plan_features import PlanFeatures  # noqa: PLC0415
        from ..models.plan_limits import PlanLimits  # noqa: PLC0415

        d = dict(src_dict)
        active_rooms = d.pop("active_rooms")

        display_name = d.pop("display_name")

        features = PlanFeatures.from_dict(d.pop("features"))

        limits = PlanLimits.from_dict(d.pop("limits"))

        participant_minutes_used = d.pop("participant_minutes_used")

        period_start = datetime.date.fromisoformat(d.pop("period_start"))

        plan_id = d.pop("plan_id")

        price_ugx = d.pop("price_ugx")

        quota_state = check_quota_state(d.pop("quota_state"))

        def _parse_participant_minutes_remaining(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        participant_minutes_remaining = _parse_participant_minutes_remaining(
            d.pop("participant_minutes_remaining", UNSET)
        )

        plan_status = cls(
            active_rooms=active_rooms,
            display_name=display_name,
            features=features,
            limits=limits,
            participant_minutes_used=participant_minutes_used,
            period_start=period_start,
            plan_id=plan_id,
            price_ugx=price_ugx,
            quota_state=quota_state,
            participant_minutes_remaining=participant_minutes_remaining,
        )

        plan_status.additional_properties = d
        return plan_status

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
