from __future__ import annotations

from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    cast,
)

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.rtmp_destination_config import RtmpDestinationConfig


T = TypeVar("T", bound="CreateRtmpDestination")


@_attrs_define
class CreateRtmpDestination:
    """A destination of broadcasts to create."""

    config: RtmpDestinationConfig
    """ Where broadcasts go. Each url reads back as `rtmp://host/app/REDACTED`. """
    kind: Literal["rtmp"]
    """ The value of `kind` in a destination of broadcasts. """
    name: str
    """ The name of a destination, unique in its template. """

    def to_dict(self) -> dict[str, Any]:
        config = self.config.to_dict()

        kind = self.kind

        name = self.name

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "config": config,
                "kind": kind,
                "name": name,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.rtmp_destination_config import RtmpDestinationConfig  # noqa: PLC0415

        d = dict(src_dict)
        config = RtmpDestinationConfig.from_dict(d.pop("config"))

        kind = cast(Literal["rtmp"], d.pop("kind"))
        if kind != "rtmp":
            raise ValueError(f"kind must match const 'rtmp', got '{kind}'")

        name = d.pop("name")

        create_rtmp_destination = cls(
            config=config,
            kind=kind,
            name=name,
        )

        return create_rtmp_destination
