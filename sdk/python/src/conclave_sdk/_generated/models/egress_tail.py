from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

T = TypeVar("T", bound="EgressTail")


@_attrs_define
class EgressTail:
    """The last fields of a recording or a broadcast: where it went, and when."""

    created_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    started_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    destination: str | Unset = UNSET
    """ The name of a destination, unique in its template. """
    destination_id: str | Unset = UNSET
    """ The id of a destination: `dst_` and twelve lower-case hex digits. """
    ended_at: datetime.datetime | Unset = UNSET
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    error: str | Unset = UNSET
    """ Set when the status is `failed`. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        created_at = self.created_at.isoformat()

        started_at = self.started_at.isoformat()

        destination = self.destination

        destination_id = self.destination_id

        ended_at: str | Unset = UNSET
        if not isinstance(self.ended_at, Unset):
            ended_at = self.ended_at.isoformat()

        error = self.error

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "created_at": created_at,
                "started_at": started_at,
            }
        )
        if destination is not UNSET:
            field_dict["destination"] = destination
        if destination_id is not UNSET:
            field_dict["destination_id"] = destination_id
        if ended_at is not UNSET:
            field_dict["ended_at"] = ended_at
        if error is not UNSET:
            field_dict["error"] = error

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        started_at = datetime.datetime.fromisoformat(d.pop("started_at"))

        destination = d.pop("destination", UNSET)

        destination_id = d.pop("destination_id", UNSET)

        _ended_at = d.pop("ended_at", UNSET)
        ended_at: datetime.datetime | Unset
        if isinstance(_ended_at, Unset):
            ended_at = UNSET
        else:
            ended_at = datetime.datetime.fromisoformat(_ended_at)

        error = d.pop("error", UNSET)

        egress_tail = cls(
            created_at=created_at,
            started_at=started_at,
            destination=destination,
            destination_id=destination_id,
            ended_at=ended_at,
            error=error,
        )

        egress_tail.additional_properties = d
        return egress_tail

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
