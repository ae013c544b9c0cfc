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

T = TypeVar("T", bound="S3Destination")


@_attrs_define
class S3Destination:
    """S3, or what speaks its protocol. Credentials that are left out of a change, or sent as `***`, stay as they are
    stored.

    """

    bucket: str
    """ The name of a bucket or container of object storage. It can become part of a host name, so it contains no
    character that ends one. """
    type_: Literal["s3"]
    """ The value of `type` in a configuration for S3. """
    access_key: str | Unset = UNSET
    """ Text of 1 to 1024 bytes without control characters. """
    endpoint: str | Unset = UNSET
    """ An absolute http or https url without user name and password. """
    force_path_style: bool | Unset = UNSET
    """ The bucket is part of the path and not of the host name. """
    prefix: str | Unset = UNSET
    """ Text of 1 to 1024 bytes without control characters. """
    region: str | Unset = UNSET
    """ The name of a region or an account of object storage. It can become part of a host name, as a bucket can.
    """
    secret: str | Unset = UNSET
    """ A credential; `***` is the stored one. """
    session_token: str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        bucket = self.bucket

        type_ = self.type_

        access_key = self.access_key

        endpoint = self.endpoint

        force_path_style = self.force_path_style

        prefix = self.prefix

        region = self.region

        secret = self.secret

        session_token = self.session_token

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "bucket": bucket,
                "type": type_,
            }
        )
        if access_key is not UNSET:
            field_dict["access_key"] = access_key
        if endpoint is not UNSET:
            field_dict["endpoint"] = endpoint
        if force_path_style is not UNSET:
            field_dict["force_path_style"] = force_path_style
        if prefix is not UNSET:
            field_dict["prefix"] = prefix
        if region is not UNSET:
            field_dict["region"] = region
        if secret is not UNSET:
            field_dict["secret"] = secret
        if session_token is not UNSET:
            field_dict["session_token"] = session_token

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        bucket = d.pop("bucket")

        type_ = cast(Literal["s3"], d.pop("type"))
        if type_ != "s3":
            raise ValueError(f"type must match const 's3', got '{type_}'")

        access_key = d.pop("access_key", UNSET)

        endpoint = d.pop("endpoint", UNSET)

        force_path_style = d.pop("force_path_style", UNSET)

        prefix = d.pop("prefix", UNSET)

        region = d.pop("region", UNSET)

        secret = d.pop("secret", UNSET)

        session_token = d.pop("session_token", UNSET)

        s3_destination = cls(
            bucket=bucket,
            type_=type_,
            access_key=access_key,
            endpoint=endpoint,
            force_path_style=force_path_style,
            prefix=prefix,
            region=region,
            secret=secret,
            session_token=session_token,
        )

        return s3_destination
