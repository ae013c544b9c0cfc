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

T = TypeVar("T", bound="NewGcpDestination")


@_attrs_define
class NewGcpDestination:
    """Google Cloud Storage."""

    bucket: str
    """ The name of a bucket or container of object storage. It can become part of a host name, so it contains no
    character that ends one. """
    credentials: str
    """ A credential; `***` is none. """
    type_: Literal["gcp"]
    """ The value of `type` in a configuration for Google Cloud Storage. """
    prefix: str | Unset = UNSET
    """ Text of 1 to 1024 bytes without control characters. """

    def to_dict(self) -> dict[str, Any]:
        bucket = self.bucket

        credentials = self.credentials

        type_ = self.type_

        prefix = self.prefix

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "bucket": bucket,
                "credentials": credentials,
                "type": type_,
            }
        )
        if prefix is not UNSET:
            field_dict["prefix"] = prefix

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        bucket = d.pop("bucket")

        credentials = d.pop("credentials")

        type_ = cast(Literal["gcp"], d.pop("type"))
        if type_ != "gcp":
            raise ValueError(f"type must match const 'gcp', got '{type_}'")

        prefix = d.pop("prefix", UNSET)

        new_gcp_destination = cls(
            bucket=bucket,
            credentials=credentials,
            type_=type_,
            prefix=prefix,
        )

        return new_gcp_destination
