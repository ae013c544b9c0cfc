from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..models.destination_kind import DestinationKind, check_destination_kind
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.azure_destination import AzureDestination
    from ..models.gcp_destination import GcpDestination
    from ..models.rtmp_destination_config import RtmpDestinationConfig
    from ..models.s3_destination import S3Destination


T = TypeVar("T", bound="UpdateDestination")


@_attrs_define
class UpdateDestination:
    """A new configuration. It replaces the stored one whole, but for credentials that are left out."""

    config: AzureDestination | GcpDestination | RtmpDestinationConfig | S3Destination
    """ By the destination's kind: object storage of recordings, or urls of broadcasts. """
    kind: DestinationKind | Unset = UNSET
    """ What a destination is for. """

    def to_dict(self) -> dict[str, Any]:
        from ..models.azure_destination import AzureDestination  # noqa: PLC0415
        from ..models.gcp_destination import GcpDestination  # noqa: PLC0415
        from ..models.s3_destination import S3Destination  # noqa: PLC0415

        config: dict[str, Any]
        if isinstance(self.config, S3Destination):
            config = self.config.to_dict()
        elif isinstance(self.config, GcpDestination):
            config = self.config.to_dict()
        elif isinstance(self.config, AzureDestination):
            config = self.config.to_dict()
        else:
            config = self.config.to_dict()

        kind: str | Unset = UNSET
        if not isinstance(self.kind, Unset):
            kind = self.kind

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "config": config,
            }
        )
        if kind is not UNSET:
            field_dict["kind"] = kind

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.azure_destination import AzureDestination  # noqa: PLC0415
        from ..models.gcp_destination import GcpDestination  # noqa: PLC0415
        from ..models.rtmp_destination_config import RtmpDestinationConfig  # noqa: PLC0415
        from ..models.s3_destination import S3Destination  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_config(data: object) -> AzureDestination | GcpDestination | RtmpDestinationConfig | S3Destination:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                componentsschemas_recording_destination_config_type_0 = S3Destination.from_dict(data)

                return componentsschemas_recording_destination_config_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                componentsschemas_recording_destination_config_type_1 = GcpDestination.from_dict(data)

                return componentsschemas_recording_destination_config_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                componentsschemas_recording_destination_config_type_2 = AzureDestination.from_dict(data)

                return componentsschemas_recording_destination_config_type_2
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            componentsschemas_destination_config_type_1 = RtmpDestinationConfig.from_dict(data)

            return componentsschemas_destination_config_type_1

        config = _parse_config(d.pop("config"))

        _kind = d.pop("kind", UNSET)
        kind: DestinationKind | Unset
        if isinstance(_kind, Unset):
            kind = UNSET
        else:
            kind = check_destination_kind(_kind)

        update_destination = cls(
            config=config,
            kind=kind,
        )

        return update_destination
