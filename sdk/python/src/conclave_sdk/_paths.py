"""Parameters in the path of a URL."""

from urllib.parse import quote

from .errors import ConclaveError

# What clients of HTTP, and servers in between, take for the same folder or the one above, so that a request for one
# participant would reach its room.
_DOT_SEGMENTS = frozenset({".", ".."})


def segment(name: str, value: object) -> str:
    """Returns the value of a path parameter as one segment of a URL.

    Raises:
        ConclaveError: if it is empty, or has a meaning of its own in a URL.
    """
    text = str(value)
    try:
        escaped = quote(text, safe="")
    except UnicodeEncodeError as cause:
        raise _refused(name, "must be valid Unicode") from cause
    # `%2e` is a dot to a client; here it is an escaped percent sign, so it stays text.
    if not text or escaped.lower().replace("%2e", ".") in _DOT_SEGMENTS:
        raise _refused(name, "must not be empty, `.` or `..`, which are not names in a URL")
    return escaped


def _refused(name: str, message: str) -> ConclaveError:
    return ConclaveError("invalid_parameter", f"{name} {message}", field=name)
