"""Path parameters."""

from urllib.parse import quote

from .errors import ConclaveError

# HTTP clients and proxies resolve these segments to the same or the parent folder, so that a request for one
# participant would reach its room.
_DOT_SEGMENTS = frozenset({".", ".."})


def segment(name: str, value: object) -> str:
    """Returns a path parameter's value as one segment of a URL.

    Raises:
        ConclaveError: if it is empty, or has a special meaning in a URL.
    """
    text = str(value)
    try:
        escaped = quote(text, safe="")
    except UnicodeEncodeError as cause:
        raise _refused(name, "must be valid Unicode") from cause
    # `%2e` is a dot to a client; here it is an escaped percent sign, so it remains text.
    if not text or escaped.lower().replace("%2e", ".") in _DOT_SEGMENTS:
        raise _refused(name, "must not be empty, `.` or `..`, which are not names in a URL")
    return escaped


def _refused(name: str, message: str) -> ConclaveError:
    return ConclaveError("invalid_parameter", f"{name} {message}", field=name)
