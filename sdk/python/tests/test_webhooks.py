"""Verification, with the deliveries that test all SDKs."""

import asyncio
import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from conclave_sdk import webhooks
from conclave_sdk.models import WebhookTestEvent
from conclave_sdk.webhooks import Event, Receiver, WebhookError

VECTORS = json.loads((Path(__file__).parents[2] / "vectors.json").read_text())
CASES: list[dict[str, Any]] = VECTORS["cases"]
BESIDE: list[dict[str, Any]] = VECTORS["beside"]
SECRET: str = VECTORS["secret"]


def outcome(case: dict[str, Any]) -> str:
    """Returns the event's type, or the reason why there is no event."""
    try:
        event = webhooks.verify(
            case["body"].encode(), case["headers"], SECRET, tolerance=case["tolerance"], now=VECTORS["now"]
        )
    except WebhookError as error:
        return error.reason
    return event.type


@pytest.mark.parametrize("case", CASES + BESIDE, ids=[case["name"] for case in CASES + BESIDE])
def test_a_delivery_is_accepted_or_refused(case: dict[str, Any]) -> None:
    assert outcome(case) == case["expect"]


def test_every_field_of_each_event_is_typed() -> None:
    bodies = {case["body"] for case in CASES if "later" not in case["body"] and case["expect"] == outcome(case)}
    seen: set[str] = set()
    for body in bodies:
        try:
            event = webhooks.parse(body.encode())
        except WebhookError:
            continue
        seen.add(event.type)
        assert event.extra == {}
        assert event.to_dict() == json.loads(body)
    assert len(seen) == 20


def test_a_field_that_is_not_known_is_kept() -> None:
    [body] = [case["body"] for case in CASES if "later" in case["body"]]
    assert webhooks.parse(body.encode()).extra == {"later": "yes"}


def test_words_and_fields_of_a_newer_server_are_kept() -> None:
    newer = [case for case in BESIDE if case["name"].endswith(", newer")]
    assert len(newer) == 22
    for case in newer:
        event = webhooks.parse(case["body"].encode())
        assert event.extra == {"later": {"more": [1]}}
        assert event.to_dict() == json.loads(case["body"])


def test_the_test_event_is_about_no_room() -> None:
    body = next(case["body"] for case in BESIDE if '"webhook.test"' in case["body"])
    event = webhooks.parse(body.encode())
    assert isinstance(event, WebhookTestEvent)
    assert (event.type, event.project_id, event.room) == ("webhook.test", "prj_5f2a9c01be34", None)


async def received(receiver: Receiver, case: dict[str, Any], method: str = "POST", rest: bytes = b"") -> int:
    """Returns an application's response status for a delivery, which arrives in two parts."""
    body: bytes = case["body"].encode() + rest
    parts = [body[:10], body[10:]]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(name.encode(), value.encode()) for name, value in case["headers"].items()]
    await receiver({"type": "http", "method": method, "headers": headers}, receive, send)
    return sent[0]["status"]


# The other deliveries are too old.
OF_ANY_AGE = [case for case in CASES if case["tolerance"] is None]


@pytest.mark.parametrize("case", OF_ANY_AGE, ids=[case["name"] for case in OF_ANY_AGE])
def test_a_receiver_handles_what_is_verified(case: dict[str, Any]) -> None:
    handled: list[tuple[str, str]] = []

    async def handle(event: Event, delivery_id: str) -> None:
        handled.append((event.type, delivery_id))

    status = asyncio.run(received(Receiver(SECRET, handle, tolerance=None), case))
    if case["expect"] == "unsigned":
        assert (status, handled) == (401, [])
    else:
        assert (status, handled) == (204, [(case["expect"], case["headers"].get("webhook-id", ""))])


def by_name(name: str) -> dict[str, Any]:
    return next(case for case in CASES + BESIDE if case["name"] == name)


@pytest.mark.parametrize("name", ["webhook.test", "participant.joined, newer", "track.published, newer"])
def test_a_receiver_handles_the_test_event_and_those_of_a_newer_server(name: str) -> None:
    handled: list[str] = []

    async def handle(event: Event, delivery_id: str) -> None:
        # Like a handler without a case for the test event.
        handled.append(f"{event.type} {event.room} {delivery_id}")

    case = by_name(name)
    assert asyncio.run(received(Receiver(SECRET, handle, tolerance=None), case)) == 204
    assert len(handled) == 1


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("too old", 401),
        ("an altered body", 401),
        ("no JSON", 400),
        ("an event of a newer server", 204),
        ("a newer event about no room", 204),
    ],
)
def test_a_receiver_says_why_it_refuses(name: str, status: int) -> None:
    async def handle(event: Event, delivery_id: str) -> None:
        raise AssertionError((event, delivery_id))

    tolerance = 300 if name == "too old" else None
    assert asyncio.run(received(Receiver(SECRET, handle, tolerance=tolerance), by_name(name))) == status


def test_a_receiver_takes_only_what_can_be_an_event() -> None:
    async def handle(event: Event, delivery_id: str) -> None:
        raise AssertionError((event, delivery_id))

    receiver, case = Receiver(SECRET, handle), CASES[1]
    assert asyncio.run(received(receiver, case, method="GET")) == 405
    assert asyncio.run(received(receiver, case, rest=b" " * 1024 * 1024)) == 413


def test_a_delivery_that_is_not_handled_fails() -> None:
    async def handle(event: Event, delivery_id: str) -> None:
        raise KeyError(event.room, delivery_id)

    with pytest.raises(KeyError):
        asyncio.run(received(Receiver(SECRET, handle, tolerance=None), by_name("old, with any age allowed")))
