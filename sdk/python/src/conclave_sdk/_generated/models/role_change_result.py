from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.participant import Participant
    from ..models.role_change import RoleChange


T = TypeVar("T", bound="RoleChangeResult")


@_attrs_define
class RoleChangeResult:
    """The result of a role change."""

    applies_live: bool
    """ Whether the change applies without a new join; always true. """
    note: str
    """ What does not change until the participant republishes. """
    participant: Participant
    """ A participant as the media plane reports it now. """
    role_change: RoleChange
    """ One change of a participant's role; exactly one of `changed_by_identity` and `changed_by_api_key_prefix` is
    present. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        applies_live = self.applies_live

        note = self.note

        participant = self.participant.to_dict()

        role_change = self.role_change.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "applies_live": applies_live,
                "note": note,
                "participant": participant,
                "role_change": role_change,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.participant import Participant  # noqa: PLC0415
        from ..models.role_change import RoleChange  # noqa: PLC0415

        d = dict(src_dict)
        applies_live = d.pop("applies_live")

        note = d.pop("note")

        participant = Participant.from_dict(d.pop("participant"))

        role_change = RoleChange.from_dict(d.pop("role_change"))

        role_change_result = cls(
            applies_live=applies_live,
            note=note,
            participant=participant,
            role_change=role_change,
        )

        role_change_result.additional_properties = d
        return role_change_result

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
