from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.input_type import InputType, check_input_type
from ..types import UNSET, Unset

T = TypeVar("T", bound="CreateIngress")


@_attrs_define
class CreateIngress:
    """An ingress endpoint to create."""

    input_type: InputType
    """ The protocol by which an encoder publishes. """
    participant_identity: str
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    enable_transcoding: bool | None | Unset = UNSET
    """ Null or left out, it is the media plane's default for the input type. """
    participant_name: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        input_type: str = self.input_type

        participant_identity = self.participant_identity

        enable_transcoding: bool | None | Unset
        if isinstance(self.enable_transcoding, Unset):
            enable_transcoding = UNSET
        else:
            enable_transcoding = self.enable_transcoding

        participant_name = self.participant_name

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "input_type": input_type,
                "participant_identity": participant_identity,
            }
        )
        if enable_transcoding is not UNSET:
            field_dict["enable_transcoding"] = enable_transcoding
        if participant_name is not UNSET:
            field_dict["participant_name"] = participant_name

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        input_type = check_input_type(d.pop("input_type"))

        participant_identity = d.pop("participant_identity")

        def _parse_enable_transcoding(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        enable_transcoding = _parse_enable_transcoding(d.pop("enable_transcoding", UNSET))

        participant_name = d.pop("participant_name", UNSET)

        create_ingress = cls(
            input_type=input_type,
            participant_identity=participant_identity,
            enable_transcoding=enable_transcoding,
            participant_name=participant_name,
        )

        return create_ingress
