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
    from ..models.new_azure_destination import NewAzureDestination
    from ..models.new_gcp_destination import NewGcpDestination
    from ..models.new_s3_destination import NewS3Destination


T = TypeVar("T", bound="CreateRecordingDestination")


@_attrs_define
class CreateRecordingDestination:
    """A destination of recordings to create."""

    config: NewAzureDestination | NewGcpDestination | NewS3Destination
    """ Object storage with its credentials, by its type. """
    kind: Literal["recording"]
    """ The value of `kind` in a destination of recordings. """
    name: str
    """ The name of a destination, unique in its template. """

    def to_dict(self) -> dict[str, Any]:
        from ..models.new_gcp_destination import NewGcpDestination  # noqa: PLC0415
        from ..models.new_s3_destination import NewS3Destination  # noqa: PLC0415

        config: dict[str, Any]
        if isinstance(self.config, NewS3Destination):
            config = self.config.to_dict()
        elif isinstance(self.config, NewGcpDestination):
            config = self.config.to_dict()
        else:
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
        from ..models.new_azure_destination import NewAzureDestination  # noqa: PLC0415
        from ..models.new_gcp_destination import NewGcpDestination  # noqa: PLC0415
        from ..models.new_s3_destination import NewS3Destination  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_config(data: object) -> NewAzureDestination | NewGcpDestination | NewS3Destination:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                componentsschemas_new_recording_destination_config_type_0 = NewS3Destination.from_dict(data)

                return componentsschemas_new_recording_destination_config_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                componentsschemas_new_recording_destination_config_type_1 = NewGcpDestination.from_dict(data)

                return componentsschemas_new_recording_destination_config_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            componentsschemas_new_recording_destination_config_type_2 = NewAzureDestination.from_dict(data)

            return componentsschemas_new_recording_destination_config_type_2

        config = _parse_config(d.pop("config"))

        kind = cast(Literal["recording"], d.pop("kind"))
        if kind != "recording":
            raise ValueError(f"kind must match const 'recording', got '{kind}'")

        name = d.pop("name")

        create_recording_destination = cls(
            config=config,
            kind=kind,
            name=name,
        )

        return create_recording_destination
