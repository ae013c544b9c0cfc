"""Decodes an operation's declared response, and rejects any other, such as a redirect or a proxy's page."""

import datetime
import json
from collections.abc import Callable
from typing import Any, cast

import httpx

from ._credential import Credential
from ._generated import models
from ._generated.table import OBJECTS, RESPONSES
from ._model import Model
from .errors import unexpected


def result_of(operation: str, response: httpx.Response, credential: Credential) -> Any:  # noqa: ANN401
    """Returns the result from a response whose body has been read.

    Raises:
        ConclaveError: if the status or the JSON differs from the operation's declaration.
    """
    _, _, statuses, kind = RESPONSES[operation]
    if response.status_code not in statuses:
        wanted = " or ".join(map(str, statuses))
        raise unexpected(response, credential, f"the response has the status {response.status_code}, not {wanted}")
    if kind is None:
        return None
    try:
        return decoded(json.loads(response.content), kind)
    # Excessive nesting is not an API response either.
    except (ValueError, RecursionError):
        # Without the cause, which may contain a part of the body.
        raise unexpected(response, credential, "the response is not the JSON that the API describes") from None


def decoded(value: object, kind: str) -> Any:  # noqa: ANN401
    """Returns a JSON value as a type of the table, whose notation sdk/responses.py explains.

    Raises:
        ValueError: if the value does not have that type.
    """
    *others, last = kind.split("|")
    for one in others:
        try:
            return _decoded_one(value, one)
        except ValueError:
            continue
    return _decoded_one(value, last)


def _decoded_one(value: object, kind: str) -> object:
    if kind.endswith("[]"):
        return [decoded(item, kind[:-2]) for item in cast(list[object], _is(list, value))]
    if kind.endswith("{}"):
        return {key: decoded(item, kind[:-2]) for key, item in _object(value).items()}
    if kind.startswith("="):
        if value != json.loads(kind[1:]):
            raise ValueError(kind)
        return value
    return _KINDS[kind](value) if kind in _KINDS else _model(_object(value), kind)


def _model(value: dict[str, object], name: str) -> Model:
    found: dict[str, Any] = {}
    for field, kind in OBJECTS[name].items():
        key, is_optional = field.removesuffix("?"), field.endswith("?")
        # An undeclared null counts as an omitted field.
        if key in value and not (is_optional and value[key] is None):
            found[key] = decoded(value[key], kind)
        elif not is_optional:
            raise ValueError(field)
    extra = {key: part for key, part in value.items() if key not in OBJECTS[name] and f"{key}?" not in OBJECTS[name]}
    return getattr(models, name)(**found, extra=extra)


def _is(kind: type, value: object) -> Any:  # noqa: ANN401
    # A Python bool is an int, but not a number to the API.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(kind.__name__)
    return value


def _object(value: object) -> dict[str, object]:
    return _is(dict, value)


def _number(value: object) -> float:
    return float(_is(int, value) if isinstance(value, int) else _is(float, value))


_KINDS: dict[str, Callable[[object], object]] = {
    "any": lambda value: value,
    "null": lambda value: _is(type(None), value),
    "string": lambda value: _is(str, value),
    "boolean": lambda value: _is(bool, value),
    "number": _number,
    "integer": lambda value: _is(int, value),
    "object": _object,
    "timestamp": lambda value: datetime.datetime.fromisoformat(_is(str, value)),
    "date": lambda value: datetime.date.fromisoformat(_is(str, value)),
}
