"""Verifies webhook deliveries, and receives them in an ASGI application."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Literal, TypeAlias, cast

from ._generated.models import Event
from ._generated.table import EVENTS
from ._responses import decoded

__all__ = ["TOLERANCE", "Event", "Reason", "Receiver", "WebhookError", "parse", "status_of", "verify"]

TOLERANCE = 300.0
"""The largest accepted age of a delivery, or lead over this machine's clock, in seconds."""
_LARGEST_BODY = 1024 * 1024

Reason: TypeAlias = Literal["unsigned", "wrong_signature", "outside_tolerance", "malformed", "unknown_event"]


class WebhookError(Exception):
    """A delivery that is not trusted or not understood."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        """`unknown_event` is a signed event of a newer server than this package."""


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secret: str,
    *,
    tolerance: float | None = TOLERANCE,
    now: float | None = None,
) -> Event:
    """Returns a delivery's event, if the server that knows the endpoint's `secret` has sent this exact body.

    Each signature in the delivery must be correct. Only the Standard Webhooks signature covers a time, so it is
    required unless `tolerance` is None. `now` is the current time in Unix seconds, by default the clock's.

    Raises:
        WebhookError: if the delivery is unsigned, altered, too old, or not an event.
    """
    sent = {name.lower(): value for name, value in headers.items()}
    signatures = [*_standard_signature(sent, body, secret), *_svc_signature(sent, body, secret)]
    if not signatures or (tolerance is not None and "webhook-signature" not in sent):
        raise WebhookError("unsigned", "a signature is missing")
    if not all(signatures):
        raise WebhookError("wrong_signature", "the signature is not that of this body and this secret")
    if tolerance is not None and not _is_recent(sent, tolerance, time.time() if now is None else now):
        raise WebhookError("outside_tolerance", "the delivery is too old, or this machine's clock is wrong")
    return parse(body)


def parse(body: bytes) -> Event:
    """Returns the event in a body without verification: for bodies from a delivery log or your own queue.

    Raises:
        WebhookError: if the body is not an event.
    """
    try:
        fields = json.loads(body)
        event_type = fields["type"]
        if not isinstance(event_type, str):
            raise TypeError(event_type)
        if event_type in EVENTS:
            return decoded(fields, EVENTS[event_type])
    except (ValueError, KeyError, TypeError, RecursionError) as cause:
        raise WebhookError("malformed", "the body is no event") from cause
    raise WebhookError("unknown_event", f"there is no event {event_type}")


def _standard_signature(sent: Mapping[str, str], body: bytes, secret: str) -> Iterator[bool]:
    if "webhook-signature" in sent:
        signed = f"{sent.get('webhook-id', '')}.{sent.get('webhook-timestamp', '')}.".encode() + body
        digest = base64.b64encode(hmac.digest(_standard_key(secret), signed, hashlib.sha256)).decode()
        # There may be several, separated by spaces.
        yield any(_same(given, f"v1,{digest}") for given in sent["webhook-signature"].split())


def _svc_signature(sent: Mapping[str, str], body: bytes, secret: str) -> Iterator[bool]:
    if "x-svc-signature" in sent:
        digest = hmac.digest(secret.encode(), body, hashlib.sha256).hex()
        # After a rotation, the first is by the previous secret, and the second by the new one.
        given = (sent["x-svc-signature"], sent.get("x-svc-signature-next", ""))
        yield any(_same(one, f"sha256={digest}") for one in given)


def _standard_key(secret: str) -> bytes:
    """Returns the bytes after `whsec_`; for a secret in another format, the key is its text."""
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _is_recent(sent: Mapping[str, str], tolerance: float, now: float) -> bool:
    # The signature was verified, so the server wrote this header.
    try:
        return abs(now - int(sent.get("webhook-timestamp", ""))) <= tolerance
    except ValueError:
        return False


_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]


class Receiver:
    """An ASGI application that passes each verified event, with its delivery's id, to `handle`.

    It accepts a delivery once `handle` has returned. If `handle` raises, the delivery fails and the server sends it
    again with the same id, by which `handle` can detect duplicates.
    """

    def __init__(
        self, secret: str, handle: Callable[[Event, str], Awaitable[None]], *, tolerance: float | None = TOLERANCE
    ) -> None:
        self._secret = secret
        self._handle = handle
        self._tolerance = tolerance

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"a receiver of webhooks does not speak {scope['type']}")
        status = 405 if scope["method"] != "POST" else await self._deliver(scope, receive)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def _deliver(self, scope: _Message, receive: _Receive) -> int:
        body = await _read(receive)
        if body is None:
            return 413
        pairs = cast(list[tuple[bytes, bytes]], scope["headers"])
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}
        try:
            event = verify(body, headers, self._secret, tolerance=self._tolerance)
        except WebhookError as error:
            return status_of(error)
        await self._handle(event, headers.get("webhook-id", ""))
        return 204


def status_of(error: WebhookError) -> int:
    """Returns the response status for a delivery that `verify` has rejected.

    Unknown events are accepted: the server would send them again, to no avail.
    """
    return {"unknown_event": 204, "malformed": 400}.get(error.reason, 401)


async def _read(receive: _Receive) -> bytes | None:
    """Returns the body, or None if it is larger than any event."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError("the client has gone")
        body += message.get("body", b"")
        if len(body) > _LARGEST_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)
