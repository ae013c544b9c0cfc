"""For every operation: the parameters that it rejects, and the responses that it accepts."""

import asyncio
import inspect
import json
import traceback
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import quote

import httpx
import pytest

from conclave_sdk import AsyncConclave, Conclave, ConclaveError, RetryPolicy
from conclave_sdk._model import Model

OPERATIONS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[2] / "operations.json").read_text())
LINK: dict[str, Any] = {
    "method": "GET",
    "path": "/files/recordings/{egress_id}/link",
    "path_parameters": ["egress_id"],
    "is_list": False,
    "statuses": [200],
    "today": {"path": "/files/recordings/EG_1"},
    "newer": {"path": "/files/recordings/EG_1", "later": True},
    "required": ["path"],
}
ALL = OPERATIONS | {"recording_link": LINK}
KEY = "vk_test_of_operations"
Kind: TypeAlias = Literal["sync", "asyncio"]
KINDS: list[Kind] = ["sync", "asyncio"]


class Server:
    """Answers every request in the same way, and records the requests."""

    def __init__(self, answer: httpx.Response | None = None) -> None:
        self.answer = answer
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.answer is None:
            raise AssertionError(request.url)
        # A body can be read only once.
        return httpx.Response(self.answer.status_code, headers=self.answer.headers, content=self.answer.content)


def methods(name: str) -> list[str]:
    """Returns an operation's methods: a list also has an iterator."""
    return [name, name.replace("list_", "all_", 1)] if ALL[name]["is_list"] else [name]


def invoke(client: Conclave | AsyncConclave, method: str, values: list[str]) -> Any:  # noqa: ANN401
    """Calls a method of a client, or of its extensions if the operation is beyond the contract."""
    is_extension = any(one["path"].startswith("/ext/") and method in methods(name) for name, one in ALL.items())
    function = getattr(client.ext if is_extension else client, method)
    # The SDK leaves the validation to the server.
    parameters = inspect.signature(function).parameters.values()
    required = {one.name: "x" for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty}
    return function(*values, **required)


def call(kind: Kind, server: Server, method: str, values: list[str]) -> object:
    """Calls a client's method, and exhausts its iterator."""
    transport = httpx.MockTransport(server)
    once = RetryPolicy(max_retries=0)
    if kind == "sync":
        with Conclave("http://conclave.test", KEY, transport=transport, retry=once) as conclave:
            result = invoke(conclave, method, values)
            return list(cast(Iterator[object], result)) if isinstance(result, Iterator) else result

    async def run() -> object:
        async with AsyncConclave("http://conclave.test", KEY, transport=transport, retry=once) as conclave:
            result = invoke(conclave, method, values)
            if isinstance(result, AsyncIterator):
                return [item async for item in cast(AsyncIterator[object], result)]
            return await result

    return asyncio.run(run())


def failure(kind: Kind, server: Server, method: str, values: list[str]) -> ConclaveError:
    with pytest.raises(ConclaveError) as caught:
        call(kind, server, method, values)
    return caught.value


def plain(name: str) -> list[str]:
    return ["x"] * len(ALL[name]["path_parameters"])


def with_parameters() -> list[tuple[str, int]]:
    return [(name, number) for name in ALL for number in range(len(ALL[name]["path_parameters"]))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "number"), with_parameters())
def test_what_is_no_name_in_a_url_is_not_sent(kind: Kind, name: str, number: int) -> None:
    for method in methods(name):
        for value in (".", "..", ""):
            values = plain(name)
            values[number] = value
            server = Server()
            error = failure(kind, server, method, values)
            assert (error.code, error.field) == ("invalid_parameter", ALL[name]["path_parameters"][number])
            assert (error.status, server.requests) == (None, [])


@pytest.mark.parametrize(("name", "number"), with_parameters())
def test_other_dots_arrive_as_they_are(name: str, number: int) -> None:
    for value in ("%2e", "%2E%2e", ".%2e", "...", ".a", "a/..", "../", "%", "ü", "{name}", " "):
        values = plain(name)
        values[number] = value
        server = Server(httpx.Response(418))
        failure("sync", server, name, values)
        wanted = ALL[name]["path"]
        for parameter, given in zip(ALL[name]["path_parameters"], values, strict=True):
            wanted = wanted.replace("{" + parameter + "}", quote(given, safe=""), 1)
        [request] = server.requests
        # In its encoded form.
        assert request.url.raw_path.decode().partition("?")[0] == wanted


def test_a_path_parameter_that_is_no_unicode_is_refused() -> None:
    error = failure("sync", Server(), "get_room", ["\ud800"])
    assert (error.code, error.field) == ("invalid_parameter", "name")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL)
def test_only_the_declared_response_is_a_result(kind: Kind, name: str) -> None:
    statuses, today = ALL[name]["statuses"], ALL[name].get("today")
    right = b"" if today is None else json.dumps(today).encode()
    wrong = [
        httpx.Response(status, headers={"Location": "https://elsewhere.test/v1"}, content=right)
        for status in (300, 301, 302, 303, 304, 307, 308)
    ]
    wrong += [httpx.Response(status, content=right) for status in (200, 201, 202, 204, 206) if status not in statuses]
    if today is not None:
        bodies = [b"", b"<html>Sign in</html>", b"{}", b"[]", b"null", b'"text"', b"7", b"{", b"\xff", b"[" * 100_000]
        for field in ALL[name]["required"]:
            bodies.append(json.dumps({key: value for key, value in today.items() if key != field}).encode())
            bodies.append(json.dumps(today | {field: [{}]}).encode())
        wrong += [httpx.Response(statuses[0], content=body) for body in bodies]
    for method in methods(name):
        for answer in wrong:
            server = Server(answer)
            error = failure(kind, server, method, plain(name))
            assert (error.code, error.status) == ("unknown", answer.status_code)
            assert repr(answer.content.decode(errors="replace")[:200]) in error.message
            assert len(server.requests) == 1


def without_nulls(value: object) -> object:
    """Removes null fields, which are optional."""
    if isinstance(value, dict):
        fields = cast(dict[str, object], value)
        return {name: without_nulls(part) for name, part in fields.items() if part is not None}
    return [without_nulls(part) for part in cast(list[object], value)] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("age", ["today", "newer"])
def test_a_newer_server_breaks_nothing(kind: Kind, name: str, age: str) -> None:
    body = ALL[name].get(age)
    content = b"" if body is None else json.dumps(body).encode()
    for status in ALL[name]["statuses"]:
        for method in methods(name):
            result = call(kind, Server(httpx.Response(status, content=content)), method, plain(name))
            assert (result is None) == (body is None)
            # Its fields are preserved and serialized again.
            if body is not None and method == name != "recording_link":
                assert isinstance(result, Model)
                assert without_nulls(result.to_dict()) == without_nulls(body)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_a_proxy_does_not_print_the_key(kind: Kind) -> None:
    sent = f"Authorization: Bearer {KEY}"
    envelope = json.dumps({"error": {"code": "unauthorized", "message": sent}})
    answers = [httpx.Response(status, text="." * 150 + sent) for status in (200, 201, 400, 502)]
    answers += [httpx.Response(401, text=envelope), httpx.Response(308, headers={"Location": f"/?{KEY}"})]
    for answer in answers:
        error = failure(kind, Server(answer), "get_room", ["standup"])
        # Nor a usable part of it.
        assert KEY[:10] not in f"{error} {error!r} {error.message} {vars(error)}"
        assert error.status == answer.status_code


@pytest.mark.parametrize("kind", KINDS)
def test_what_breaks_a_connection_does_not_print_the_key(kind: Kind) -> None:
    class Broken(Server):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            raise httpx.RemoteProtocolError(f"illegal header {request.headers['Authorization']}")

    error = failure(kind, Broken(), "get_room", ["standup"])
    assert error.code == "connection_failed"
    assert KEY not in "".join(traceback.format_exception(error))


def test_a_link_stays_on_the_server() -> None:
    for path in ("@elsewhere.test/", ".elsewhere.test/", ":80/"):
        error = failure("sync", Server(httpx.Response(200, json={"path": path})), "recording_link", ["EG_1"])
        assert (error.code, error.status) == ("unknown", 200)
