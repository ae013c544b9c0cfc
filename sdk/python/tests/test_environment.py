"""A client without arguments, with its server and key in the environment."""

from typing import Any

import httpx
import pytest

from conclave_sdk import AsyncConclave, Conclave, ConclaveError

URL, KEY = "http://conclave.test", "vk_test_of_the_environment"


def test_a_client_without_arguments_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCLAVE_URL", URL)
    monkeypatch.setenv("CONCLAVE_KEY", KEY)
    assert _sent() == (f"{URL}/v1/plan", f"Bearer {KEY}")
    assert _sent("http://other.test", "vk_test_given") == ("http://other.test/v1/plan", "Bearer vk_test_given")
    assert _sent(api_key="vk_test_given") == (f"{URL}/v1/plan", "Bearer vk_test_given")
    AsyncConclave()


@pytest.mark.parametrize("client", [Conclave, AsyncConclave])
@pytest.mark.parametrize("unset", [None, ""])
def test_a_missing_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, client: type[Conclave | AsyncConclave], unset: str | None
) -> None:
    _set(monkeypatch, "CONCLAVE_URL", unset)
    _set(monkeypatch, "CONCLAVE_KEY", KEY)
    with pytest.raises(ConclaveError, match="CONCLAVE_URL is not set") as raised:
        client()
    assert raised.value.code == "invalid_url"
    assert KEY not in str(raised.value)
    _set(monkeypatch, "CONCLAVE_KEY", unset)
    with pytest.raises(ConclaveError, match="CONCLAVE_KEY is not set") as raised:
        client(URL)
    assert raised.value.code == "invalid_key"


def _set(monkeypatch: pytest.MonkeyPatch, variable: str, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv(variable, raising=False)
    else:
        monkeypatch.setenv(variable, value)


def _sent(*arguments: str, **options: Any) -> tuple[str, str]:  # noqa: ANN401
    """Returns a request's URL and credential."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(401, json={"error": {"code": "unauthorized", "message": "no"}})

    with Conclave(*arguments, **options, transport=httpx.MockTransport(answer)) as client, pytest.raises(ConclaveError):
        client.get_plan()
    return str(requests[0].url), requests[0].headers["Authorization"]
