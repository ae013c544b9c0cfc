from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="PlanFeatures")


@_attrs_define
class PlanFeatures:
    """The features that a plan includes."""

    recording: bool | Unset = False
    """ Whether rooms can be recorded. """
    streaming: bool | Unset = False
    """ Whether broadcasts and ingress can be used. """

    def to_dict(self) -> dict[str, Any]:
        recording = self.recording

        streaming = self.streaming

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if recording is not UNSET:
            field_dict["recording"] = recording
        if streaming is not UNSET:
            field_dict["streaming"] = streaming

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        recording = d.pop("recording", UNSET)

        streaming = d.pop("streaming", UNSET)

        plan_features = cls(
            recording=recording,
            streaming=streaming,
        )

        return plan_features
