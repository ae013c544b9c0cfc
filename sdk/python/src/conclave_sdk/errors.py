"""The error class of all calls."""

from typing import Any, Protocol, cast

import httpx

from ._retry import retry_after

# Bytes of a foreign response in an error: enough to identify its sender.
_LONGEST_EXCERPT = 200


class ConclaveError(Exception):
    """A failed call: rejected by the server, or without a response."""

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
        """Identifies the error for branching, such as `room_exists`. `connection_failed` without a response, `unknown`
        if the response is not the API's, such as a redirect or a proxy's page."""
        self.message = message
        """Describes the error, in words that may change."""
        self.status = status
        """The HTTP status, or None without a response."""
        self.field = field
        """The rejected field of the request, or the missing permission."""
        self.request_id = request_id
        """The request's id in the server's log."""
        self.retry_after = retry_after
        """The server's `Retry-After` in seconds, or None if the response had none."""


class Hiding(Protocol):
    """An object that masks an API key."""

    def hide(self, text: str) -> str: ...


def error_of(response: httpx.Response, credential: Hiding) -> ConclaveError:
    """Returns the error in a response of 400 or above whose body has been read."""
    envelope = _envelope(response)
    if envelope is None:
        return unexpected(response, credential, f"the response has the status {response.status_code}")
    code, message, field = envelope
    return _error(code, credential.hide(message), response, field)


def unexpected(response: httpx.Response, credential: Hiding, problem: str) -> ConclaveError:
    """Returns the error for a response that is not the API's, with an excerpt."""
    location = response.headers.get("Location") if response.is_redirect else None
    if location is not None:
        problem += f"; redirects are not followed, and this one leads to {_excerpt(location, credential)}"
    # Masks the key in more than the excerpt, so that no truncated key remains.
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
    """Returns the code, the message and the field of the API's error, or None if the response has none."""
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
