from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="PlanLimits")


@_attrs_define
class PlanLimits:
    """The maximum numbers of a plan; null is unlimited."""

    concurrent_rooms: int | None | Unset = UNSET
    """ Maximum number of open rooms. """
    participant_minutes_per_month: int | None | Unset = UNSET
    """ Included participant minutes in a calendar month (UTC). """
    participants_per_room: int | None | Unset = UNSET
    """ Maximum number of participants in one room. """

    def to_dict(self) -> dict[str, Any]:
        concurrent_rooms: int | None | Unset
        if isinstance(self.concurrent_rooms, Unset):
            concurrent_rooms = UNSET
        else:
            concurrent_rooms = self.concurrent_rooms

        participant_minutes_per_month: int | None | Unset
        if isinstance(self.participant_minutes_per_month, Unset):
            participant_minutes_per_month = UNSET
        else:
            participant_minutes_per_month = self.participant_minutes_per_month

        participants_per_room: int | None | Unset
        if isinstance(self.participants_per_room, Unset):
            participants_per_room = UNSET
        else:
            participants_per_room = self.participants_per_room

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if concurrent_rooms is not UNSET:
            field_dict["concurrent_rooms"] = concurrent_rooms
        if participant_minutes_per_month is not UNSET:
            field_dict["participant_minutes_per_month"] = participant_minutes_per_month
        if participants_per_room is not UNSET:
            field_dict["participants_per_room"] = participants_per_room

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_concurrent_rooms(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        concurrent_rooms = _parse_concurrent_rooms(d.pop("concurrent_rooms", UNSET))

        def _parse_participant_minutes_per_month(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        participant_minutes_per_month = _parse_participant_minutes_per_month(
            d.pop("participant_minutes_per_month", UNSET)
        )

        def _parse_participants_per_room(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        participants_per_room = _parse_participants_per_room(d.pop("participants_per_room", UNSET))

        plan_limits = cls(
            concurrent_rooms=concurrent_rooms,
            participant_minutes_per_month=participant_minutes_per_month,
            participants_per_room=participants_per_room,
        )

        return plan_limits
