"""The variables that take the place of arguments which are not given."""

import os

from .errors import ConclaveError


def from_environment(url: str | None, api_key: str | None) -> tuple[str, str]:
    """Returns the URL and the key that are given, or else those of `CONCLAVE_URL` and `CONCLAVE_KEY`."""
    return (
        _value(url, "CONCLAVE_URL", "invalid_url", "URL"),
        _value(api_key, "CONCLAVE_KEY", "invalid_key", "API key"),
    )


def _value(given: str | None, variable: str, code: str, name: str) -> str:
    value = os.environ.get(variable) if given is None else given
    # A variable that a compose file leaves unset is empty.
    if value is None or (given is None and not value):
        raise ConclaveError(code, f"no {name} is given, and {variable} is not set")
    return value
