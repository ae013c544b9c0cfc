"""Requests of operations."""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._generated.table import RESPONSES
from ._model import to_json
from ._paths import segment
from ._retry import takes_idempotency_key


@dataclass(frozen=True)
class Options:
    """Arguments of a call besides its path. None is not sent."""

    query: Mapping[str, object]
    body: Mapping[str, object] | None
    idempotency_key: str | None
    timeout: float | None


def request_of(operation: str, path: Sequence[str], options: Options) -> dict[str, Any]:
    """Returns the arguments for `httpx.Client.request`.

    Raises:
        ConclaveError: if a path parameter is not usable in a URL.
    """
    method, template, _, _ = RESPONSES[operation]
    values = iter(path)
    url = re.sub(r"\{(\w+)\}", lambda name: segment(name[1], next(values)), template)
    request: dict[str, Any] = {"method": method, "url": url}
    if query := _given(options.query):
        request["params"] = query
    if options.body is not None:
        request["json"] = _given(options.body)
    if takes_idempotency_key(method, url):
        # All attempts share the key, so that the server recognizes a retry.
        key = str(uuid.uuid4()) if options.idempotency_key is None else options.idempotency_key
        request["headers"] = {"Idempotency-Key": key}
    if options.timeout is not None:
        request["timeout"] = options.timeout
    return request


def _given(fields: Mapping[str, object]) -> dict[str, Any]:
    return {name: to_json(value) for name, value in fields.items() if value is not None}
