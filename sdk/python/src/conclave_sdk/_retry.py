"""When a request is sent again, and when. Without I/O: the transports of both clients follow it."""

import random
import re
from dataclasses import dataclass, field

import httpx

# With 429 and 503, the server has not done what was asked. 502 and 504 are a proxy's
# that has lost the server, or not reached it.
_STATUSES = frozenset({429, 502, 503, 504})
_FIRST_WAIT = 0.25
_LONGEST_WAIT = 8.0
# The calls that change something and take no `Idempotency-Key`.
_WITHOUT_KEY = re.compile(r"/v1/(rooms/[^/]+/ingress|codes/[^/]+/exchange)$")


@dataclass(frozen=True)
class RetryPolicy:
    """How often a request is sent again, and how long a `Retry-After` may be that is waited for."""

    max_retries: int = 4
    """Further attempts after the first. 0 sends everything once."""
    max_retry_after: float = 30.0
    """Seconds. After a longer `Retry-After` the error is raised at once, and says how long to wait."""
    jitter: random.Random = field(default_factory=random.Random)

    def wait_after_response(self, request: httpx.Request, attempt: int, response: httpx.Response) -> float | None:
        """Returns how many seconds to wait before the next attempt, or nothing if this response stands."""
        if response.status_code not in _STATUSES or not self._may_repeat(request, attempt):
            return None
        after = retry_after(response)
        if after is None:
            return self._backoff(attempt)
        return after if after <= self.max_retry_after else None

    def wait_after_failure(self, request: httpx.Request, attempt: int) -> float | None:
        """Returns how many seconds to wait after a broken connection, or nothing if it is an error."""
        return self._backoff(attempt) if self._may_repeat(request, attempt) else None

    def _may_repeat(self, request: httpx.Request, attempt: int) -> bool:
        return attempt < self.max_retries and is_repeatable(request)

    def _backoff(self, attempt: int) -> float:
        longest = min(_FIRST_WAIT * 2.0**attempt, _LONGEST_WAIT)
        return longest * self.jitter.uniform(0.5, 1.0)


def takes_idempotency_key(method: str, path: str) -> bool:
    """Tells whether a call changes something and takes an `Idempotency-Key`."""
    return method == "POST" and _WITHOUT_KEY.search(path) is None


def is_repeatable(request: httpx.Request) -> bool:
    """Tells whether sending a request twice has the effect of sending it once."""
    return request.method in ("GET", "PUT", "DELETE") or "Idempotency-Key" in request.headers


def retry_after(response: httpx.Response) -> float | None:
    """Returns the seconds that a response says to wait."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None
