from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.publish_kind import PublishKind, check_publish_kind
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.audio_input import AudioInput
    from ..models.video_input import VideoInput


T = TypeVar("T", bound="RolePublishInput")


@_attrs_define
class RolePublishInput:
    """RolePublish as a caller sends it."""

    allowed: list[PublishKind] | Unset = UNSET
    """ Default all four kinds. """
    audio: AudioInput | Unset = UNSET
    """ AudioProfile as a caller sends it. """
    max_kbps: int | None | Unset = UNSET
    screen: VideoInput | Unset = UNSET
    """ VideoProfile as a caller sends it. """
    simulcast: bool | Unset = UNSET
    """ Whether video is sent in several qualities at once; default true. """
    video: VideoInput | Unset = UNSET
    """ VideoProfile as a caller sends it. """

    def to_dict(self) -> dict[str, Any]:
        allowed: list[str] | Unset = UNSET
        if not isinstance(self.allowed, Unset):
            allowed = []
            for allowed_item_data in self.allowed:
                allowed_item: str = allowed_item_data
                allowed.append(allowed_item)

        audio: dict[str, Any] | Unset = UNSET
        if not isinstance(self.audio, Unset):
            audio = self.audio.to_dict()

        max_kbps: int | None | Unset
        if isinstance(self.max_kbps, Unset):
            max_kbps = UNSET
        else:
            max_kbps = self.max_kbps

        screen: dict[str, Any] | Unset = UNSET
        if not isinstance(self.screen, Unset):
            screen = self.screen.to_dict()

        simulcast = self.simulcast

        video: dict[str, Any] | Unset = UNSET
        if not isinstance(self.video, Unset):
            video = self.video.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if allowed is not UNSET:
            field_dict["allowed"] = allowed
        if audio is not UNSET:
            field_dict["audio"] = audio
        if max_kbps is not UNSET:
            field_dict["max_kbps"] = max_kbps
        if screen is not UNSET:
            field_dict["screen"] = screen
        if simulcast is not UNSET:
            field_dict["simulcast"] = simulcast
        if video is not UNSET:
            field_dict["video"] = video

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.audio_input import AudioInput  # noqa: PLC0415
        from ..models.video_input import VideoInput  # noqa: PLC0415

        d = dict(src_dict)
        _allowed = d.pop("allowed", UNSET)
        allowed: list[PublishKind] | Unset = UNSET
        if _allowed is not UNSET:
            allowed = []
            for allowed_item_data in _allowed:
                allowed_item = check_publish_kind(allowed_item_data)

                allowed.append(allowed_item)

        _audio = d.pop("audio", UNSET)
        audio: AudioInput | Unset
        if isinstance(_audio, Unset):
            audio = UNSET
        else:
            audio = AudioInput.from_dict(_audio)

        def _parse_max_kbps(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        max_kbps = _parse_max_kbps(d.pop("max_kbps", UNSET))

        _screen = d.pop("screen", UNSET)
        screen: VideoInput | Unset
        if isinstance(_screen, Unset):
            screen = UNSET
        else:
            screen = VideoInput.from_dict(_screen)

        simulcast = d.pop("simulcast", UNSET)

        _video = d.pop("video", UNSET)
        video: VideoInput | Unset
        if isinstance(_video, Unset):
            video = UNSET
        else:
            video = VideoInput.from_dict(_video)

        role_publish_input = cls(
            allowed=allowed,
            audio=audio,
            max_kbps=max_kbps,
            screen=screen,
            simulcast=simulcast,
            video=video,
        )

        return role_publish_input
