from __future__ import annotations

from collections.abc import Mapping
from typing import (
    Any,
    Literal,
    TypeVar,
    cast,
)

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="GcpDestination")


@_attrs_define
class GcpDestination:
    """Google Cloud Storage."""

    bucket: str
    """ The name of a bucket or container of object storage. It can become part of a host name, so it contains no
    character that ends one. """
    type_: Literal["gcp"]
    """ The value of `type` in a configuration for Google Cloud Storage. """
    credentials: str | Unset = UNSET
    """ A credential; `***` is the stored one. """
    prefix: str | Unset = UNSET
    """ Text of 1 to 1024 bytes without control characters. """

    def to_dict(self) -> dict[str, Any]:
        bucket = self.bucket

        type_ = self.type_

        credentials = self.credentials

        prefix = self.prefix

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "bucket": bucket,
                "type": type_,
            }
        )
        if credentials is not UNSET:
            field_dict["credentials"] = credentials
        if prefix is not UNSET:
            field_dict["prefix"] = prefix

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        bucket = d.pop("bucket")

        type_ = cast(Literal["gcp"], d.pop("type"))
        if type_ != "gcp":
            raise ValueError(f"type must match const 'gcp', got '{type_}'")

        credentials = d.pop("credentials", UNSET)

        prefix = d.pop("prefix", UNSET)

        gcp_destination = cls(
            bucket=bucket,
            type_=type_,
            credentials=credentials,
            prefix=prefix,
        )

        return gcp_destination
