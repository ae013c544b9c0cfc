from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.publish_kind import PublishKind, check_publish_kind

if TYPE_CHECKING:
    from ..models.audio_profile import AudioProfile
    from ..models.video_profile import VideoProfile


T = TypeVar("T", bound="RolePublish")


@_attrs_define
class RolePublish:
    """The media and data that a role may publish, with all defaults filled in; also the PublishProfile of a token."""

    allowed: list[PublishKind]
    """ The kinds that may be published. """
    audio: AudioProfile
    """ The encoding of audio. """
    max_kbps: int | None
    screen: VideoProfile
    """ The encoding of video. """
    simulcast: bool
    """ Whether video is sent in several qualities at once. """
    video: VideoProfile
    """ The encoding of video. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        allowed = []
        for allowed_item_data in self.allowed:
            allowed_item: str = allowed_item_data
            allowed.append(allowed_item)

        audio = self.audio.to_dict()

        max_kbps: int | None
        max_kbps = self.max_kbps

        screen = self.screen.to_dict()

        simulcast = self.simulcast

        video = self.video.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "allowed": allowed,
                "audio": audio,
                "max_kbps": max_kbps,
                "screen": screen,
                "simulcast": simulcast,
                "video": video,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.audio_profile import AudioProfile  # noqa: PLC0415
        from ..models.video_profile import VideoProfile  # noqa: PLC0415

        d = dict(src_dict)
        allowed = []
        _allowed = d.pop("allowed")
        for allowed_item_data in _allowed:
            allowed_item = check_publish_kind(allowed_item_data)

            allowed.append(allowed_item)

        audio = AudioProfile.from_dict(d.pop("audio"))

        def _parse_max_kbps(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        max_kbps = _parse_max_kbps(d.pop("max_kbps"))

        screen = VideoProfile.from_dict(d.pop("screen"))

        simulcast = d.pop("simulcast")

        video = VideoProfile.from_dict(d.pop("video"))

        role_publish = cls(
            allowed=allowed,
            audio=audio,
            max_kbps=max_kbps,
            screen=screen,
            simulcast=simulcast,
            video=video,
        )

        role_publish.additional_properties = d
        return role_publish

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
