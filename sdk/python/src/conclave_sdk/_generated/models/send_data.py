from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.data_kind import DataKind, check_data_kind
from ..types import UNSET, Unset

T = TypeVar("T", bound="SendData")


@_attrs_define
class SendData:
    """A message from the server."""

    data: str
    destination_identities: list[str] | Unset = UNSET
    """ The receivers; absent or empty is everyone. """
    kind: DataKind | Unset = UNSET
    """ The delivery of a data message. """
    topic: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        data = self.data

        destination_identities: list[str] | Unset = UNSET
        if not isinstance(self.destination_identities, Unset):
            destination_identities = self.destination_identities

        kind: str | Unset = UNSET
        if not isinstance(self.kind, Unset):
            kind = self.kind

        topic = self.topic

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "data": data,
            }
        )
        if destination_identities is not UNSET:
            field_dict["destination_identities"] = destination_identities
        if kind is not UNSET:
            field_dict["kind"] = kind
        if topic is not UNSET:
            field_dict["topic"] = topic

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        data = d.pop("data")

        destination_identities = cast(list[str], d.pop("destination_identities", UNSET))

        _kind = d.pop("kind", UNSET)
        kind: DataKind | Unset
        if isinstance(_kind, Unset):
            kind = UNSET
        else:
            kind = check_data_kind(_kind)

        topic = d.pop("topic", UNSET)

        send_data = cls(
            data=data,
            destination_identities=destination_identities,
            kind=kind,
            topic=topic,
        )

        return send_data
