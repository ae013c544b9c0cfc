"""Requests, retries and errors of the clients, with a function as the server."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from conclave_sdk import AsyncConclave, Conclave, ConclaveError, RetryPolicy
from conclave_sdk._retry import takes_idempotency_key

DATA = Path(__file__).parents[3] / "tests" / "data"
DESCRIPTION = json.loads((DATA / "openapi.json").read_text())
EXTENSIONS = json.loads((DATA / "openapi-ext.json").read_text())
ROOM = {
    "id": "0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21",
    "project_id": "prj_5f2a9c01be34",
    "name": "standup",
    "namespaced_name": "prj_5f2a9c01be34.standup",
    "max_participants": 0,
    "empty_timeout_seconds": 300,
    "status": "open",
    "created_at": "2026-01-31T12:00:00.000Z",
}
REFUSED = httpx.Response(
    429,
    headers={"Retry-After": "0", "X-Request-Id": "req-1"},
    json={"error": {"code": "rate_limited", "message": "over the request rate"}},
)

Server = Callable[[httpx.Request], httpx.Response]


class Script:
    """A server with scripted responses, which records the requests. An exception breaks the connection."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def keys(self) -> set[str | None]:
        return {request.headers.get("Idempotency-Key") for request in self.requests}


def client(server: Server, **options: Any) -> Conclave:  # noqa: ANN401
    return Conclave("http://conclave.test", "vk_test_key", transport=httpx.MockTransport(server), **options)


def unavailable(**headers: str) -> httpx.Response:
    body = {"error": {"code": "media_unavailable", "message": "the media plane does not answer"}}
    return httpx.Response(503, headers=headers, json=body)


def of_proxy(status: int) -> httpx.Response:
    return httpx.Response(status, html="<h1>Bad Gateway</h1>")


def created() -> httpx.Response:
    return httpx.Response(201, json=ROOM)


def test_a_call_has_the_key_of_the_project_and_one_of_its_own() -> None:
    server = Script(created(), created())
    conclave = client(server)
    room = conclave.create_room(name="standup")
    assert room.name == "standup"
    conclave.create_room(name="standup")
    [first, second] = server.requests
    assert first.headers["Authorization"] == "Bearer vk_test_key"
    assert json.loads(first.content) == {"name": "standup"}
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]


def test_a_link_to_a_file_is_at_the_address_of_the_server() -> None:
    path = "/files/recordings/EG_1?project=prj_1&expires=2&signature=3"

    def answer() -> httpx.Response:
        return httpx.Response(200, json={"path": path, "expires_at": "2026-01-31T12:00:00.000Z"})

    server = Script(REFUSED, answer(), answer())
    assert client(server).recording_link("EG/1", expires_in_seconds=60) == f"http://conclave.test{path}"
    request = server.requests[1]
    assert str(request.url) == "http://conclave.test/files/recordings/EG%2F1/link?expires_in_seconds=60"
    assert request.headers["Authorization"] == "Bearer vk_test_key"

    async def run() -> str:
        transport = httpx.MockTransport(server)
        async with AsyncConclave("http://conclave.test", "vk_test_key", transport=transport) as conclave:
            return await conclave.recording_link("EG_1")

    assert asyncio.run(run()) == f"http://conclave.test{path}"


def test_the_key_of_the_project_is_not_printed() -> None:
    conclave = client(Script())
    assert "vk_test_key" not in f"{conclave!r} {vars(conclave)} {vars(conclave._http)}"  # pyright: ignore[reportPrivateUsage]


def test_a_given_key_is_kept() -> None:
    server = Script(REFUSED, created())
    client(server).create_room(name="standup", idempotency_key="order-7")
    assert server.keys == {"order-7"}


@pytest.mark.parametrize(
    "failure", [REFUSED, unavailable(**{"Retry-After": "0"}), of_proxy(502), of_proxy(504), httpx.ReadError("cut")]
)
def test_a_failed_call_is_repeated_with_the_same_key(failure: httpx.Response | Exception) -> None:
    server = Script(failure, failure, created())
    client(server).create_room(name="standup")
    assert len(server.requests) == 3
    assert len(server.keys) == 1
    assert None not in server.keys


@pytest.mark.parametrize("failure", [REFUSED, httpx.ConnectError("refused")])
def test_a_call_of_asyncio_is_repeated_too(failure: httpx.Response | Exception) -> None:
    server = Script(failure, created())

    async def run() -> None:
        transport = httpx.MockTransport(server)
        async with AsyncConclave("http://conclave.test", "vk_test_key", transport=transport) as conclave:
            await conclave.create_room(name="standup")

    asyncio.run(run())
    assert len(server.requests) == 2
    assert len(server.keys) == 1


def make_ingress(conclave: Conclave) -> None:
    conclave.create_ingress("standup", input_type="whip", participant_identity="encoder")


def exchange(conclave: Conclave) -> None:
    conclave.exchange_code("abcd-efgh-ijkm")


def rename(conclave: Conclave) -> None:
    conclave.update_template("tpl_9b1d3e5f7a20", name="other")


@pytest.mark.parametrize("call", [make_ingress, exchange, rename])
def test_a_call_without_a_key_is_sent_once(call: Callable[[Conclave], None]) -> None:
    server = Script(unavailable(), created())
    with pytest.raises(ConclaveError, match="media_unavailable"):
        call(client(server))
    assert server.keys == {None}
    assert len(server.requests) == 1


def test_the_operations_with_a_key_are_those_of_the_description() -> None:
    operations = [
        (method.upper(), path, operation)
        for path, item in DESCRIPTION["paths"].items()
        for method, operation in item.items()
    ]
    assert len(operations) == 54
    for method, path, operation in operations:
        names = [parameter["name"] for parameter in operation.get("parameters", [])]
        assert takes_idempotency_key(method, re.sub(r"\{\w+\}", "x", path)) == ("Idempotency-Key" in names), path
        assert callable(getattr(Conclave, operation["operationId"]))
        if "offset" in names:
            assert callable(getattr(Conclave, operation["operationId"].replace("list_", "all_", 1)))
    for path, item in EXTENSIONS["paths"].items():
        for method, operation in item.items():
            names = [parameter["name"] for parameter in operation.get("parameters", [])]
            plain = re.sub(r"\{\w+\}", "x", path)
            assert takes_idempotency_key(method.upper(), plain) == ("Idempotency-Key" in names), path


def test_a_repeated_erasure_has_the_key_of_the_first() -> None:
    report: dict[str, object] = {
        "replacement": "erased-1",
        "changed": dict.fromkeys(["sessions", "role_changes", "codes", "ingresses", "recordings", "bans", "events"], 1),
        "deleted_files": 0,
        "remaining_recordings": [],
        "has_more": False,
    }
    server = Script(unavailable(**{"Retry-After": "0"}), httpx.Response(200, json=report))
    assert client(server).ext.erase_identity("mallory", idempotency_key="once").changed.sessions == 1
    assert server.keys == {"once"}
    assert len(server.requests) == 2


def test_the_error_says_what_the_server_says() -> None:
    body = {"error": {"code": "invalid_room_name", "message": "must be 1 to 128 characters", "field": "name"}}
    server = Script(httpx.Response(400, headers={"X-Request-Id": "req-2"}, json=body))
    with pytest.raises(ConclaveError) as caught:
        client(server).create_room(name="/")
    error = caught.value
    assert (error.status, error.code, error.field) == (400, "invalid_room_name", "name")
    assert (error.request_id, error.retry_after) == ("req-2", None)
    assert str(error) == "invalid_room_name: must be 1 to 128 characters"


def test_the_last_refusal_is_raised() -> None:
    server = Script(REFUSED, REFUSED, REFUSED)
    with pytest.raises(ConclaveError) as caught:
        client(server, retry=RetryPolicy(max_retries=2)).get_room("standup")
    assert (caught.value.code, caught.value.request_id, caught.value.retry_after) == ("rate_limited", "req-1", 0)
    assert len(server.requests) == 3


def test_a_long_retry_after_is_not_waited_for() -> None:
    server = Script(unavailable(**{"Retry-After": "3600"}))
    with pytest.raises(ConclaveError) as caught:
        client(server).get_room("standup")
    assert caught.value.retry_after == 3600


def test_a_broken_connection_is_an_error_too() -> None:
    cause = httpx.ConnectError("refused")
    with pytest.raises(ConclaveError) as caught:
        client(Script(cause), retry=RetryPolicy(max_retries=0)).get_room("standup")
    assert (caught.value.code, caught.value.status, caught.value.__cause__) == ("connection_failed", None, cause)


def test_the_answer_of_a_proxy_is_an_error_too() -> None:
    with pytest.raises(ConclaveError) as caught:
        client(Script(of_proxy(502)), retry=RetryPolicy(max_retries=0)).get_room("standup")
    assert (caught.value.status, caught.value.code) == (502, "unknown")


def test_waits_grow_and_differ() -> None:
    policy = RetryPolicy(max_retries=10)
    request = httpx.Request("GET", "http://conclave.test/v1/rooms")
    for attempt, longest in [(0, 0.25), (1, 0.5), (2, 1.0), (9, 8.0)]:
        waits = [policy.wait_after_failure(request, attempt) or 0 for _ in range(50)]
        assert longest / 2 <= min(waits) < max(waits) <= longest
    assert policy.wait_after_failure(request, 10) is None
    assert policy.wait_after_response(request, 0, unavailable(**{"Retry-After": "7"})) == 7


def pages(request: httpx.Request) -> httpx.Response:
    """Answers with pages of a list of 7 rooms."""
    limit, offset = int(request.url.params["limit"]), int(request.url.params["offset"])
    rooms = [ROOM | {"name": f"room-{number}"} for number in range(7)][offset : offset + limit]
    body = {"rooms": rooms, "limit": limit, "offset": offset, "has_more": offset + limit < 7}
    return httpx.Response(200, json=body)


def test_an_iterator_goes_through_all_pages() -> None:
    with client(pages) as conclave:
        names = [room.name for room in conclave.all_rooms(limit=3)]
        assert names == [f"room-{number}" for number in range(7)]
        assert [room.name for room in conclave.all_rooms(limit=3, offset=5)] == names[5:]


def test_an_iterator_of_asyncio_goes_through_all_pages() -> None:
    async def run() -> list[str]:
        async with AsyncConclave("http://conclave.test", "key", transport=httpx.MockTransport(pages)) as conclave:
            return [room.name async for room in conclave.all_rooms(limit=3)]

    assert asyncio.run(run()) == [f"room-{number}" for number in range(7)]
