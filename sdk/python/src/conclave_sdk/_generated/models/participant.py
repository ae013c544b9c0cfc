from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.participant_kind import ParticipantKind, check_participant_kind
from ..models.participant_state import ParticipantState, check_participant_state
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.participant_attributes import ParticipantAttributes
    from ..models.track import Track


T = TypeVar("T", bound="Participant")


@_attrs_define
class Participant:
    """A participant as the media plane reports it now."""

    attributes: ParticipantAttributes
    """ Attributes set by the server, such as `svc.role` and `svc.publish.max_kbps`, and those that its client has
    set, if its role permits. """
    identity: str
    """ The identity in the participant's token. """
    is_publisher: bool
    """ Whether it publishes at least one track. """
    kind: ParticipantKind
    """ The kind of a participant. """
    metadata: str
    """ The metadata in the token, unless its client has set others. """
    name: str
    """ The display name in the token, unless its client has set another; empty if it has none. """
    sid: str
    """ The media plane's id of this join. """
    state: ParticipantState
    """ The state of a join. """
    tracks: list[Track]
    """ The published tracks. """
    joined_at: datetime.datetime | Unset = UNSET
    """ The instant of the join; absent if the media plane does not report it. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        attributes = self.attributes.to_dict()

        identity = self.identity

        is_publisher = self.is_publisher

        kind: str = self.kind

        metadata = self.metadata

        name = self.name

        sid = self.sid

        state: str = self.state

        tracks = []
        for tracks_item_data in self.tracks:
            tracks_item = tracks_item_data.to_dict()
            tracks.append(tracks_item)

        joined_at: str | Unset = UNSET
        if not isinstance(self.joined_at, Unset):
            joined_at = self.joined_at.isoformat()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "attributes": attributes,
                "identity": identity,
                "is_publisher": is_publisher,
                "kind": kind,
                "metadata": metadata,
                "name": name,
                "sid": sid,
                "state": state,
                "tracks": tracks,
            }
        )
        if joined_at is not UNSET:
            field_dict["joined_at"] = joined_at

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.participant_attributes import ParticipantAttributes  # noqa: PLC0415
        from ..models.track import Track  # noqa: PLC0415

        d = dict(src_dict)
        attributes = ParticipantAttributes.from_dict(d.pop("attributes"))

        identity = d.pop("identity")

        is_publisher = d.pop("is_publisher")

        kind = check_participant_kind(d.pop("kind"))

        metadata = d.pop("metadata")

        name = d.pop("name")

        sid = d.pop("sid")

        state = check_participant_state(d.pop("state"))

        tracks = []
        _tracks = d.pop("tracks")
        for tracks_item_data in _tracks:
            tracks_item = Track.from_dict(tracks_item_data)

            tracks.append(tracks_item)

        _joined_at = d.pop("joined_at", UNSET)
        joined_at: datetime.datetime | Unset
        if isinstance(_joined_at, Unset):
            joined_at = UNSET
        else:
            joined_at = datetime.datetime.fromisoformat(_joined_at)

        participant = cls(
            attributes=attributes,
            identity=identity,
            is_publisher=is_publisher,
            kind=kind,
            metadata=metadata,
            name=name,
            sid=sid,
            state=state,
            tracks=tracks,
            joined_at=joined_at,
        )

        participant.additional_properties = d
        return participant

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
