"""The one error that every call raises."""

import httpx

from ._retry import retry_after


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
        the API's."""
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


def error_of(response: httpx.Response) -> ConclaveError:
    """Returns the error of a response whose body has been read."""
    code, message, field = _envelope(response)
    return ConclaveError(
        code,
        message,
        status=response.status_code,
        field=field,
        request_id=response.headers.get("X-Request-Id"),
        retry_after=retry_after(response),
    )


def _envelope(response: httpx.Response) -> tuple[str, str, str | None]:
    try:
        error = response.json()["error"]
        return str(error["code"]), str(error["message"]), error.get("field")
    except (ValueError, KeyError, TypeError, AttributeError):
        # A proxy in between answered.
        return "unknown", f"the response has the status {response.status_code}", None
