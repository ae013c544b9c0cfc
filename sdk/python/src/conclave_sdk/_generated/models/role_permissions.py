from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="RolePermissions")


@_attrs_define
class RolePermissions:
    """The moderation calls that a role may make. All default to false."""

    broadcast: bool | Unset = False
    """ May start and stop broadcasts. """
    change_role: bool | Unset = False
    """ May change the roles of participants. """
    end_room: bool | Unset = False
    """ May end the room. """
    mute_others: bool | Unset = False
    """ May mute tracks of other participants. """
    record: bool | Unset = False
    """ May start and stop recordings. """
    remove_others: bool | Unset = False
    """ May remove participants. """
    send_data: bool | Unset = False
    """ May send data through the server. """
    unmute_others: bool | Unset = False
    """ May unmute tracks of other participants. """
    update_own_metadata: bool | Unset = False
    """ Beyond the contract: may change its own name, metadata and attributes by the protocol of clients. Shown only
    if it is true. """

    def to_dict(self) -> dict[str, Any]:
        broadcast = self.broadcast

        change_role = self.change_role

        end_room = self.end_room

        mute_others = self.mute_others

        record = self.record

        remove_others = self.remove_others

        send_data = self.send_data

        unmute_others = self.unmute_others

        update_own_metadata = self.update_own_metadata

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if broadcast is not UNSET:
            field_dict["broadcast"] = broadcast
        if change_role is not UNSET:
            field_dict["change_role"] = change_role
        if end_room is not UNSET:
            field_dict["end_room"] = end_room
        if mute_others is not UNSET:
            field_dict["mute_others"] = mute_others
        if record is not UNSET:
            field_dict["record"] = record
        if remove_others is not UNSET:
            field_dict["remove_others"] = remove_others
        if send_data is not UNSET:
            field_dict["send_data"] = send_data
        if unmute_others is not UNSET:
            field_dict["unmute_others"] = unmute_others
        if update_own_metadata is not UNSET:
            field_dict["update_own_metadata"] = update_own_metadata

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        broadcast = d.pop("broadcast", UNSET)

        change_role = d.pop("change_role", UNSET)

        end_room = d.pop("end_room", UNSET)

        mute_others = d.pop("mute_others", UNSET)

        record = d.pop("record", UNSET)

        remove_others = d.pop("remove_others", UNSET)

        send_data = d.pop("send_data", UNSET)

        unmute_others = d.pop("unmute_others", UNSET)

        update_own_metadata = d.pop("update_own_metadata", UNSET)

        role_permissions = cls(
            broadcast=broadcast,
            change_role=change_role,
            end_room=end_room,
            mute_others=mute_others,
            record=record,
            remove_others=remove_others,
            send_data=send_data,
            unmute_others=unmute_others,
            update_own_metadata=update_own_metadata,
        )

        return role_permissions
