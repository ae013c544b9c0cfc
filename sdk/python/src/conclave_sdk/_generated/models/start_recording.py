from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.layout import Layout, check_layout
from ..models.recording_type import RecordingType, check_recording_type
from ..types import UNSET, Unset

T = TypeVar("T", bound="StartRecording")


@_attrs_define
class StartRecording:
    """A recording to start."""

    type_: RecordingType
    """ The part of a room that a recording contains. """
    audio_only: bool | Unset = UNSET
    """ Sound alone. With type `room_composite` only, and not beside `video_only`. """
    destination: str | Unset = UNSET
    """ The name of a destination, unique in its template. """
    filepath: str | Unset = UNSET
    """ A relative path of 1 to 512 bytes that names a file; a name in it has 255 bytes at most. """
    identity: str | Unset = UNSET
    """ The identity of a participant, unique in its room while the participant is connected. Not `.` or `..`, which
    HTTP clients resolve
    as steps in a path. """
    layout: Layout | Unset = UNSET
    """ The arrangement of the participants in a composite video of the room. """
    track_id: str | Unset = UNSET
    """ The id that the media plane gives to one published track. """
    video_only: bool | Unset = UNSET
    """ Picture alone. With type `room_composite` only, and not beside `audio_only`. """

    def to_dict(self) -> dict[str, Any]:
        type_: str = self.type_

        audio_only = self.audio_only

        destination = self.destination

        filepath = self.filepath

        identity = self.identity

        layout: str | Unset = UNSET
        if not isinstance(self.layout, Unset):
            layout = self.layout

        track_id = self.track_id

        video_only = self.video_only

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "type": type_,
            }
        )
        if audio_only is not UNSET:
            field_dict["audio_only"] = audio_only
        if destination is not UNSET:
            field_dict["destination"] = destination
        if filepath is not UNSET:
            field_dict["filepath"] = filepath
        if identity is not UNSET:
            field_dict["identity"] = identity
        if layout is not UNSET:
            field_dict["layout"] = layout
        if track_id is not UNSET:
            field_dict["track_id"] = track_id
        if video_only is not UNSET:
            field_dict["video_only"] = video_only

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        type_ = check_recording_type(d.pop("type"))

        audio_only = d.pop("audio_only", UNSET)

        destination = d.pop("destination", UNSET)

        filepath = d.pop("filepath", UNSET)

        identity = d.pop("identity", UNSET)

        _layout = d.pop("layout", UNSET)
        layout: Layout | Unset
        if isinstance(_layout, Unset):
            layout = UNSET
        else:
            layout = check_layout(_layout)

        track_id = d.pop("track_id", UNSET)

        video_only = d.pop("video_only", UNSET)

        start_recording = cls(
            type_=type_,
            audio_only=audio_only,
            destination=destination,
            filepath=filepath,
            identity=identity,
            layout=layout,
            track_id=track_id,
            video_only=video_only,
        )

        return start_recording
