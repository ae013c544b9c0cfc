"""Environment variables for omitted arguments."""

import os

from .errors import ConclaveError


def from_environment(url: str | None, api_key: str | None) -> tuple[str, str]:
    """Returns the given URL and key, or else the values of `CONCLAVE_URL` and `CONCLAVE_KEY`."""
    return (
        _value(url, "CONCLAVE_URL", "invalid_url", "URL"),
        _value(api_key, "CONCLAVE_KEY", "invalid_key", "API key"),
    )


def _value(given: str | None, variable: str, code: str, name: str) -> str:
    value = os.environ.get(variable) if given is None else given
    # A compose file passes an unset variable as an empty one.
    if value is None or (given is None and not value):
        raise ConclaveError(code, f"no {name} is given, and {variable} is not set")
    return value
