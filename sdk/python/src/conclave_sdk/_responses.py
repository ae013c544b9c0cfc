"""Decodes the response that an operation declares, and refuses any other, such as a redirect or the page of a proxy."""

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
    """Returns the result in a response whose body has been read.

    Raises:
        ConclaveError: if it has not the status and the JSON that its operation declares.
    """
    _, _, statuses, kind = RESPONSES[operation]
    if response.status_code not in statuses:
        wanted = " or ".join(map(str, statuses))
        raise unexpected(response, credential, f"the response has the status {response.status_code}, not {wanted}")
    if kind is None:
        return None
    try:
        return decoded(json.loads(response.content), kind)
    # Nesting without end is no answer of the API either.
    except (ValueError, RecursionError):
        # Without its cause, which may have a part of the body.
        raise unexpected(response, credential, "the response is not the JSON that the API describes") from None


def decoded(value: object, kind: str) -> Any:  # noqa: ANN401
    """Returns a value of JSON as a type of the table, whose notation sdk/responses.py explains.

    Raises:
        ValueError: if it has not that type.
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
        # A null that is not declared is a field that is left out.
        if key in value and not (is_optional and value[key] is None):
            found[key] = decoded(value[key], kind)
        elif not is_optional:
            raise ValueError(field)
    extra = {key: part for key, part in value.items() if key not in OBJECTS[name] and f"{key}?" not in OBJECTS[name]}
    return getattr(models, name)(**found, extra=extra)


def _is(kind: type, value: object) -> Any:  # noqa: ANN401
    # A boolean is an int to Python, and no number to the API.
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
