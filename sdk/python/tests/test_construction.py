"""Construction of a client: keys, URLs, and the environment's proxies."""

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from conclave_sdk import AsyncConclave, Conclave, ConclaveError, RetryPolicy

CLIENTS: list[type[Conclave] | type[AsyncConclave]] = [Conclave, AsyncConclave]
PLAN: dict[str, Any] = {
    "plan_id": "free",
    "display_name": "Free",
    "price_ugx": 0,
    "quota_state": "active",
    "features": {},
    "limits": {},
    "active_rooms": 0,
    "participant_minutes_used": 0.0,
    "period_start": "2026-01-01",
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "key",
    ["", " \n", "vk_test_\nsecret", "vk_test_\x00secret", "vk_test_ secret", "vk_test_sécret", "vk_test_\x7fsecret"],
)
def test_a_key_that_no_header_can_carry_is_refused_and_not_printed(
    client: type[Conclave] | type[AsyncConclave], key: str
) -> None:
    with pytest.raises(ConclaveError) as caught:
        client("http://conclave.test", key)
    assert caught.value.code == "invalid_key"
    printed = f"{caught.value} {caught.value!r} {vars(caught.value)}"
    assert "vk_test" not in printed
    assert "cret" not in printed


@pytest.mark.parametrize("key", ["vk_test_key\n", "\r\n vk_test_key\t", "vk_test_key"])
def test_white_space_around_a_key_is_removed(key: str) -> None:
    sent: list[str] = []

    def server(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"])
        return httpx.Response(200, json=PLAN)

    with Conclave(" http://conclave.test\n", key, transport=httpx.MockTransport(server)) as conclave:
        conclave.get_plan()
    assert sent == ["Bearer vk_test_key"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "url", ["", "conclave.test", "ftp://conclave.test", "vk_test_secret", "http://a b", "http://a\nb"]
)
def test_a_url_that_is_none_is_refused_and_not_printed(client: type[Conclave] | type[AsyncConclave], url: str) -> None:
    with pytest.raises(ConclaveError) as caught:
        client(url, "vk_test_key")
    assert caught.value.code == "invalid_url"
    assert "vk_test" not in str(caught.value)


@contextmanager
def proxy() -> Generator[tuple[str, list[str]]]:
    """A proxy that answers in place of each server, and its received lines and credentials."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(f"GET {self.path} {self.headers['Authorization']}")
            body = json.dumps(PLAN).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_CONNECT(self) -> None:
            seen.append(f"CONNECT {self.path} {self.headers['Authorization']}")
            self.send_error(502)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


def test_the_proxies_of_the_environment_are_used(without_proxies: pytest.MonkeyPatch) -> None:
    once = RetryPolicy(max_retries=0)
    with proxy() as (address, seen):
        without_proxies.setenv("HTTP_PROXY", address)
        without_proxies.setenv("HTTPS_PROXY", address)
        with Conclave("http://conclave.invalid", "vk_test_key") as conclave:
            assert conclave.get_plan().plan_id == "free"
        # Through a tunnel, which does not receive the API key.
        with Conclave("https://conclave.invalid", "vk_test_key", retry=once) as conclave:
            with pytest.raises(ConclaveError) as caught:
                conclave.get_plan()
            assert caught.value.code == "connection_failed"
        assert seen == ["GET http://conclave.invalid/v1/plan Bearer vk_test_key", "CONNECT conclave.invalid:443 None"]
        without_proxies.setenv("NO_PROXY", "conclave.invalid")
        with Conclave("http://conclave.invalid", "vk_test_key", retry=once) as conclave:
            with pytest.raises(ConclaveError) as caught:
                conclave.get_plan()
            assert caught.value.code == "connection_failed"
        assert len(seen) == 2


async def plan(retry: RetryPolicy) -> str:
    async with AsyncConclave("http://conclave.invalid", "vk_test_key", retry=retry) as conclave:
        return (await conclave.get_plan()).plan_id


def test_the_proxies_of_the_environment_are_used_with_asyncio(without_proxies: pytest.MonkeyPatch) -> None:
    with proxy() as (address, seen):
        without_proxies.setenv("HTTP_PROXY", address)
        assert asyncio.run(plan(RetryPolicy())) == "free"
        assert len(seen) == 1
