"""Conditions and delays of retries, without I/O. The transports of both clients apply them."""

import random
import re
from dataclasses import dataclass, field

import httpx

# With 429 and 503, the server has not executed the request. 502 and 504 come from a proxy that lost or never reached
# the server.
_STATUSES = frozenset({429, 502, 503, 504})
_FIRST_WAIT = 0.25
_LONGEST_WAIT = 8.0
# POSTs that accept no `Idempotency-Key`.
_WITHOUT_KEY = re.compile(r"/v1/(rooms/[^/]+/ingress|codes/[^/]+/exchange)$")
# DELETEs that accept one, since their response is a report.
_WITH_KEY = re.compile(r"/ext/v1/identities/[^/]+$")


@dataclass(frozen=True)
class RetryPolicy:
    """Limits of retries: their number, and the longest `Retry-After` that is honoured."""

    max_retries: int = 4
    """Attempts after the first. 0 disables retries."""
    max_retry_after: float = 30.0
    """Seconds. After a longer `Retry-After` the error is raised at once, with `retry_after` set."""
    jitter: random.Random = field(default_factory=random.Random)

    def wait_after_response(self, request: httpx.Request, attempt: int, response: httpx.Response) -> float | None:
        """Returns the seconds before the next attempt, or None if this response is final."""
        if response.status_code not in _STATUSES or not self._may_repeat(request, attempt):
            return None
        after = retry_after(response)
        if after is None:
            return self._backoff(attempt)
        return after if after <= self.max_retry_after else None

    def wait_after_failure(self, request: httpx.Request, attempt: int) -> float | None:
        """Returns the seconds to wait after a broken connection, or None if the failure is final."""
        return self._backoff(attempt) if self._may_repeat(request, attempt) else None

    def _may_repeat(self, request: httpx.Request, attempt: int) -> bool:
        return attempt < self.max_retries and is_repeatable(request)

    def _backoff(self, attempt: int) -> float:
        longest = min(_FIRST_WAIT * 2.0**attempt, _LONGEST_WAIT)
        return longest * self.jitter.uniform(0.5, 1.0)


def takes_idempotency_key(method: str, path: str) -> bool:
    """Returns whether a call changes something and accepts an `Idempotency-Key`."""
    if method == "POST":
        return _WITHOUT_KEY.search(path) is None
    return method == "DELETE" and _WITH_KEY.search(path) is not None


def is_repeatable(request: httpx.Request) -> bool:
    """Returns whether sending a request twice has the effect of sending it once."""
    return request.method in ("GET", "PUT", "DELETE") or "Idempotency-Key" in request.headers


def retry_after(response: httpx.Response) -> float | None:
    """Returns a response's `Retry-After` in seconds."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None
