"""Common parts of the API's types."""

import base64
import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast

from ._generated.table import OBJECTS

SECRET: Mapping[str, Any] = {"secret": True}
"""Metadata of a field that is not printed."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Model:
    """An object from the server. An absent field has its default, or is None."""

    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields that this version of the package does not know, as JSON. Not part of `repr`."""

    def __repr__(self) -> str:
        # Printed tokens and keys would end up in logs. An unknown field of a newer server may be one.
        shown = [
            f"{one.name}={'***' if one.metadata == SECRET and value is not None else value!r}"
            for one in fields(self)
            if one.name != "extra"
            for value in [getattr(self, one.name)]
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def to_dict(self) -> dict[str, Any]:
        """Returns the object as the API's JSON, including secrets."""
        result: dict[str, Any] = {}
        for name in OBJECTS[type(self).__name__]:
            value = getattr(self, name.removesuffix("?"))
            if value is not None or not name.endswith("?"):
                result[name.removesuffix("?")] = to_json(value)
        return result | dict(self.extra)


def to_json(value: object) -> Any:  # noqa: ANN401
    """Returns an argument as JSON."""
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, datetime.datetime):
        return timestamp(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: to_json(part) for key, part in cast(Mapping[Any, object], value).items()}
    if isinstance(value, list | tuple):
        return [to_json(part) for part in cast(list[object], value)]
    return value


def timestamp(value: datetime.datetime) -> str:
    """Returns an instant in the API's format. Without a time zone it is left to the server, which rejects it."""
    if value.tzinfo is None:
        return value.isoformat()
    precision = "microseconds" if value.microsecond % 1000 else "milliseconds"
    return value.astimezone(datetime.UTC).isoformat(timespec=precision).replace("+00:00", "Z")
