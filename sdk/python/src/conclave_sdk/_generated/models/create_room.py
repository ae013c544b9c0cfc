from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="CreateRoom")


@_attrs_define
class CreateRoom:
    """A room to create."""

    name: str
    """ The name of a room, which a project uses once. """
    empty_timeout_seconds: int | None | Unset = UNSET
    """ How long the room stays open with no participant in it; default 300. """
    max_participants: int | Unset = UNSET
    """ Cap on participants; 0, the default, means that the plan's limit applies. """
    metadata: Any | Unset = UNSET
    """ Any JSON, returned unchanged. """
    template_id: str | Unset = UNSET
    """ The id of a template: `tpl_` and twelve lower-case hex digits. """

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        empty_timeout_seconds: int | None | Unset
        if isinstance(self.empty_timeout_seconds, Unset):
            empty_timeout_seconds = UNSET
        else:
            empty_timeout_seconds = self.empty_timeout_seconds

        max_participants = self.max_participants

        metadata = self.metadata

        template_id = self.template_id

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
            }
        )
        if empty_timeout_seconds is not UNSET:
            field_dict["empty_timeout_seconds"] = empty_timeout_seconds
        if max_participants is not UNSET:
            field_dict["max_participants"] = max_participants
        if metadata is not UNSET:
            field_dict["metadata"] = metadata
        if template_id is not UNSET:
            field_dict["template_id"] = template_id

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        def _parse_empty_timeout_seconds(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        empty_timeout_seconds = _parse_empty_timeout_seconds(d.pop("empty_timeout_seconds", UNSET))

        max_participants = d.pop("max_participants", UNSET)

        metadata = d.pop("metadata", UNSET)

        template_id = d.pop("template_id", UNSET)

        create_room = cls(
            name=name,
            empty_timeout_seconds=empty_timeout_seconds,
            max_participants=max_participants,
            metadata=metadata,
            template_id=template_id,
        )

        return create_room
