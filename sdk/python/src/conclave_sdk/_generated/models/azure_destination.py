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

T = TypeVar("T", bound="AzureDestination")


@_attrs_define
class AzureDestination:
    """Azure Blob Storage."""

    account_name: str
    """ The name of a region or an account of object storage. It can become part of a host name, as a bucket can.
    """
    container: str
    """ The name of a bucket or container of object storage. It can become part of a host name, so it contains no
    character that ends one. """
    type_: Literal["azure"]
    """ The value of `type` in a configuration for Azure Blob Storage. """
    account_key: str | Unset = UNSET
    """ A credential; `***` is the stored one. """
    prefix: str | Unset = UNSET
    """ Text of 1 to 1024 bytes without control characters. """

    def to_dict(self) -> dict[str, Any]:
        account_name = self.account_name

        container = self.container

        type_ = self.type_

        account_key = self.account_key

        prefix = self.prefix

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "account_name": account_name,
                "container": container,
                "type": type_,
            }
        )
        if account_key is not UNSET:
            field_dict["account_key"] = account_key
        if prefix is not UNSET:
            field_dict["prefix"] = prefix

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        account_name = d.pop("account_name")

        container = d.pop("container")

        type_ = cast(Literal["azure"], d.pop("type"))
        if type_ != "azure":
            raise ValueError(f"type must match const 'azure', got '{type_}'")

        account_key = d.pop("account_key", UNSET)

        prefix = d.pop("prefix", UNSET)

        azure_destination = cls(
            account_name=account_name,
            container=container,
            type_=type_,
            account_key=account_key,
            prefix=prefix,
        )

        return azure_destination
