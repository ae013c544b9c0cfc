from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="ExchangeCode")


@_attrs_define
class ExchangeCode:
    """The identity that a token is asked for in exchange for a room code."""

    identity: str | Unset = UNSET
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """

    def to_dict(self) -> dict[str, Any]:
        identity = self.identity

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if identity is not UNSET:
            field_dict["identity"] = identity

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        identity = d.pop("identity", UNSET)

        exchange_code = cls(
            identity=identity,
        )

        return exchange_code
