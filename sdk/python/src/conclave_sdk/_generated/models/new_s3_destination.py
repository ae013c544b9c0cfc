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

T = TypeVar("T", bound="NewS3Destination")


@_attrs_define
class NewS3Destination:
    """S3, or what speaks its protocol."""

    access_key: str
    """ Text of 1 to 1024 bytes without control characters. """
    bucket: str
    """ The name of a bucket or container of object storage. It can become part of a host name, so it contains no
    character that ends one. """
    secret: str
    """ A credential; `***` is none. """
    type_: Literal["s3"]
    """ The value of `type` in a configuration for S3. """
    endpoint: str | Unset = UNSET
    """ An absolute http or https url without user name and password. """
    force_path_style: bool | Unset = UNSET
    """ The bucket is part of the path and not of the host name. """
    prefix: str | Unset = UNSET
    """ Text of 1 to 1024 bytes without control characters. """
    region: str | Unset = UNSET
    """ The name of a region or an account of object storage. It can become part of a host name, as a bucket can.
    """
    session_token: str | Unset = UNSET
    """ A session token, or an empty text for none; `***` is none. """

    def to_dict(self) -> dict[str, Any]:
        access_key = self.access_key

        bucket = self.bucket

        secret = self.secret

        type_ = self.type_

        endpoint = self.endpoint

        force_path_style = self.force_path_style

        prefix = self.prefix

        region = self.region

        session_token = self.session_token

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "access_key": access_key,
                "bucket": bucket,
                "secret": secret,
                "type": type_,
            }
        )
        if endpoint is not UNSET:
            field_dict["endpoint"] = endpoint
        if force_path_style is not UNSET:
            field_dict["force_path_style"] = force_path_style
        if prefix is not UNSET:
            field_dict["prefix"] = prefix
        if region is not UNSET:
            field_dict["region"] = region
        if session_token is not UNSET:
            field_dict["session_token"] = session_token

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        access_key = d.pop("access_key")

        bucket = d.pop("bucket")

        secret = d.pop("secret")

        type_ = cast(Literal["s3"], d.pop("type"))
        if type_ != "s3":
            raise ValueError(f"type must match const 's3', got '{type_}'")

        endpoint = d.pop("endpoint", UNSET)

        force_path_style = d.pop("force_path_style", UNSET)

        prefix = d.pop("prefix", UNSET)

        region = d.pop("region", UNSET)

        session_token = d.pop("session_token", UNSET)

        new_s3_destination = cls(
            access_key=access_key,
            bucket=bucket,
            secret=secret,
            type_=type_,
            endpoint=endpoint,
            force_path_style=force_path_style,
            prefix=prefix,
            region=region,
            session_token=session_token,
        )

        return new_s3_destination
