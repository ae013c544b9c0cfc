"""Tells the response that an operation declares from any other, such as a redirect or the page of a proxy."""

import datetime
import json
from collections.abc import Callable
from typing import Any, cast

import httpx

from ._credential import Credential
from ._generated.responses import OBJECTS, RESPONSES
from .errors import unexpected


def checked(operation: str, response: httpx.Response, credential: Credential) -> httpx.Response:
    """Returns a response whose body has been read, if it has the status and the JSON that its operation declares.

    Raises:
        ConclaveError: for any other.
    """
    statuses, body_type = RESPONSES[operation]
    if response.status_code not in statuses:
        wanted = " or ".join(map(str, statuses))
        raise unexpected(response, credential, f"the response has the status {response.status_code}, not {wanted}")
    if body_type is not None and not fits(_body(response), body_type):
        raise unexpected(response, credential, "the response is not the JSON that the API describes")
    return response


class _NoJson:
    """A body that is no JSON."""


def _body(response: httpx.Response) -> object:
    try:
        return json.loads(response.content)
    # Nesting without end is no answer of the API either.
    except (ValueError, RecursionError):
        return _NoJson()


def _is_timestamp(value: object) -> bool:
    return _parses(datetime.datetime.fromisoformat, value)


def _is_date(value: object) -> bool:
    return _parses(datetime.date.fromisoformat, value)


def _parses(parse: Callable[[str], object], value: object) -> bool:
    try:
        return isinstance(value, str) and parse(value) is not None
    except ValueError:
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: dict[str, Callable[[object], bool]] = {
    "any": lambda value: not isinstance(value, _NoJson),
    "null": lambda value: value is None,
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "timestamp": _is_timestamp,
    "date": _is_date,
}


def fits(value: object, body_type: str) -> bool:
    """Tells whether a value has a type of the table, whose notation sdk/responses.py explains."""
    return any(_fits_one(value, one) for one in body_type.split("|"))


def _fits_one(value: object, kind: str) -> bool:
    if kind.endswith("[]"):
        return isinstance(value, list) and all(fits(item, kind[:-2]) for item in cast(list[Any], value))
    if kind.endswith("{}"):
        return isinstance(value, dict) and all(fits(item, kind[:-2]) for item in cast(dict[str, Any], value).values())
    if kind in _KINDS:
        return _KINDS[kind](value)
    return isinstance(value, dict) and _has_fields(cast(dict[str, Any], value), OBJECTS[kind])


def _has_fields(value: dict[str, Any], fields: dict[str, str]) -> bool:
    for field, kind in fields.items():
        name = field.removesuffix("?")
        if name in value:
            if not fits(value[name], kind):
                return False
        elif name == field:
            return False
    return True
