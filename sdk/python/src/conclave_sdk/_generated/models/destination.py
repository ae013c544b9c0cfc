from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.destination_kind import DestinationKind, check_destination_kind

if TYPE_CHECKING:
    from ..models.azure_destination import AzureDestination
    from ..models.gcp_destination import GcpDestination
    from ..models.other_destination_config import OtherDestinationConfig
    from ..models.s3_destination import S3Destination
    from ..models.shown_rtmp_destination_config import ShownRtmpDestinationConfig


T = TypeVar("T", bound="Destination")


@_attrs_define
class Destination:
    """A destination."""

    config: AzureDestination | GcpDestination | OtherDestinationConfig | S3Destination | ShownRtmpDestinationConfig
    """ A configuration without its secrets, by the destination's kind. """
    created_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    id: str
    """ The id of a destination: `dst_` and twelve lower-case hex digits. """
    kind: DestinationKind
    """ What a destination is for. """
    name: str
    """ The name of a destination, unique in its template. """
    template_id: str
    """ The id of a template: `tpl_` and twelve lower-case hex digits. """
    updated_at: datetime.datetime
    """ An instant in UTC: RFC 3339 with milliseconds and `Z`. """
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.azure_destination import AzureDestination  # noqa: PLC0415
        from ..models.gcp_destination import GcpDestination  # noqa: PLC0415
        from ..models.s3_destination import S3Destination  # noqa: PLC0415
        from ..models.shown_rtmp_destination_config import ShownRtmpDestinationConfig  # noqa: PLC0415

        config: dict[str, Any]
        if isinstance(self.config, S3Destination):
            config = self.config.to_dict()
        elif isinstance(self.config, GcpDestination):
            config = self.config.to_dict()
        elif isinstance(self.config, AzureDestination):
            config = self.config.to_dict()
        elif isinstance(self.config, ShownRtmpDestinationConfig):
            config = self.config.to_dict()
        else:
            config = self.config.to_dict()

        created_at = self.created_at.isoformat()

        id = self.id

        kind: str = self.kind

        name = self.name

        template_id = self.template_id

        updated_at = self.updated_at.isoformat()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "config": config,
                "created_at": created_at,
                "id": id,
                "kind": kind,
                "name": name,
                "template_id": template_id,
                "updated_at": updated_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.azure_destination import AzureDestination  # noqa: PLC0415
        from ..models.gcp_destination import GcpDestination  # noqa: PLC0415
        from ..models.other_destination_config import OtherDestinationConfig  # noqa: PLC0415
        from ..models.s3_destination import S3Destination  # noqa: PLC0415
        from ..models.shown_rtmp_destination_config import ShownRtmpDestinationConfig  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_config(
            data: object,
        ) -> AzureDestination | GcpDestination | OtherDestinationConfig | S3Destination | ShownRtmpDestinationConfig:
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
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                componentsschemas_shown_destination_config_type_1 = ShownRtmpDestinationConfig.from_dict(data)

                return componentsschemas_shown_destination_config_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            componentsschemas_shown_destination_config_type_2 = OtherDestinationConfig.from_dict(data)

            return componentsschemas_shown_destination_config_type_2

        config = _parse_config(d.pop("config"))

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        id = d.pop("id")

        kind = check_destination_kind(d.pop("kind"))

        name = d.pop("name")

        template_id = d.pop("template_id")

        updated_at = datetime.datetime.fromisoformat(d.pop("updated_at"))

        destination = cls(
            config=config,
            created_at=created_at,
            id=id,
            kind=kind,
            name=name,
            template_id=template_id,
            updated_at=updated_at,
        )

        destination.additional_properties = d
        return destination

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
