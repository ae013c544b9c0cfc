"""The one error that every call raises."""

from typing import Any, Protocol, cast

import httpx

from ._retry import retry_after

# Bytes of a response that is not the API's; enough to tell who has sent it.
_LONGEST_EXCERPT = 200


class ConclaveError(Exception):
    """A call that failed, because the server refused it or could not be reached."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        field: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        """What to branch on, such as `room_exists`. `connection_failed` if no response came, `unknown` if it was not
        the API's: a redirect, or the page of a proxy."""
        self.message = message
        """What went wrong, in words that may change."""
        self.status = status
        """The HTTP status, or nothing if no response came."""
        self.field = field
        """The field of the request that was refused, or the permission that is missing."""
        self.request_id = request_id
        """The id of the request in the server's log."""
        self.retry_after = retry_after
        """How many seconds to wait before another attempt, if the server said so."""


class Hiding(Protocol):
    """What hides an API key."""

    def hide(self, text: str) -> str: ...


def error_of(response: httpx.Response, credential: Hiding) -> ConclaveError:
    """Returns the error of a response that refuses, whose body has been read."""
    envelope = _envelope(response)
    if envelope is None:
        return unexpected(response, credential, f"the response has the status {response.status_code}")
    code, message, field = envelope
    return _error(code, credential.hide(message), response, field)


def unexpected(response: httpx.Response, credential: Hiding, problem: str) -> ConclaveError:
    """Returns the error of a response that is not the API's, with its first bytes."""
    location = response.headers.get("Location") if response.is_redirect else None
    if location is not None:
        problem += f"; redirects are not followed, and this one leads to {_excerpt(location, credential)}"
    # More than is shown, so that a key is not cut in two.
    start = response.content[: 16 * _LONGEST_EXCERPT].decode(errors="replace")
    return _error("unknown", f"{problem}: {_excerpt(start, credential)}", response)


def _excerpt(text: str, credential: Hiding) -> str:
    return repr(credential.hide(text)[:_LONGEST_EXCERPT])


def _error(code: str, message: str, response: httpx.Response, field: str | None = None) -> ConclaveError:
    return ConclaveError(
        code,
        message,
        status=response.status_code,
        field=field,
        request_id=response.headers.get("X-Request-Id"),
        retry_after=retry_after(response),
    )


def _envelope(response: httpx.Response) -> tuple[str, str, str | None] | None:
    """Returns the code, the message and the field of the API's error, or nothing if the response has none."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return None
    error = cast(dict[str, Any], body).get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    found = cast(dict[str, Any], error)
    code, message, field = found.get("code"), found.get("message"), found.get("field")
    if not isinstance(code, str) or not isinstance(message, str):
        return None
    return code, message, field if isinstance(field, str) else None
