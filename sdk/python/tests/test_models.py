"""Printed forms, unknown fields, and arguments of the types."""

import copy
import dataclasses
import datetime
import json
import pickle
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from conclave_sdk import Conclave, models
from conclave_sdk._generated import models as generated
from conclave_sdk._model import Model

DESCRIPTION = json.loads((Path(__file__).parents[3] / "tests" / "data" / "openapi.json").read_text())
OPERATIONS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[2] / "operations.json").read_text())
SENTINEL = "sentinel-of-a-secret"
# By name, so that a new field of the API is not missed.
SECRET = re.compile(r"(^|_)(token|secret|key|credentials?|password|code)$")
PUBLIC = {"access_key"}

TYPES: list[type[Model]] = [
    one for name in generated.__all__ if isinstance(one := getattr(models, name), type) and issubclass(one, Model)
]


class Server:
    """Answers every request in the same way, and records the bodies."""

    def __init__(self, operation: str, **changes: object) -> None:
        today = OPERATIONS[operation].get("today")
        content = b"" if today is None else json.dumps(today | changes).encode()
        self.answer = httpx.Response(OPERATIONS[operation]["statuses"][0], content=content)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answer

    @property
    def client(self) -> Conclave:
        return Conclave("http://conclave.test", "vk_test_key", transport=httpx.MockTransport(self))

    @property
    def body(self) -> Any:  # noqa: ANN401
        return json.loads(self.requests[-1].content)


def printed(value: object) -> str:
    """Returns an object as printed by print, f-strings, logs and debuggers."""
    return f"{value!r} {value!s} {value} {[value]}"


def made(one: type[Model], **values: Any) -> Model:  # noqa: ANN401
    """Returns an object of a type, whose other fields are None."""
    fields: dict[str, Any] = {field.name: None for field in dataclasses.fields(one) if field.name != "extra"}
    return one(**(fields | values))


def test_no_secret_is_printed() -> None:
    secrets = {
        (one.__name__, field.name)
        for one in TYPES
        for field in dataclasses.fields(one)
        if SECRET.search(field.name) and field.name not in PUBLIC
    }
    assert secrets == {
        ("AzureDestination", "account_key"),
        ("GcpDestination", "credentials"),
        ("IngressCreated", "stream_key"),
        ("RoomCode", "code"),
        ("S3Destination", "secret"),
        ("S3Destination", "session_token"),
        ("Token", "token"),
        ("WebhookEndpointCreated", "secret"),
        ("WebhookSecretRotated", "secret"),
    }
    for name, field in secrets:
        text = printed(made(getattr(models, name), **{field: SENTINEL}))
        assert SENTINEL not in text
        assert f"{field}='***'" in text


def test_every_text_of_the_description_that_is_a_secret_is_one_here() -> None:
    texts = {name for name, schema in DESCRIPTION["components"]["schemas"].items() if schema.get("type") == "string"}
    for name, schema in DESCRIPTION["components"]["schemas"].items():
        one = getattr(models, name, None)
        parts = [schema, *(part for part in schema.get("allOf", []) if "properties" in part)]
        for field, part in [item for one_part in parts for item in one_part.get("properties", {}).items()]:
            is_text = part.get("type") == "string" or part.get("$ref", "").rpartition("/")[2] in texts
            if isinstance(one, type) and issubclass(one, Model) and is_text and SECRET.search(field):
                text = printed(made(one, **{field: SENTINEL}))
                assert (SENTINEL in text) == (field in PUBLIC), (name, field)


def test_a_secret_within_another_object_is_not_printed() -> None:
    code = OPERATIONS["create_code"]["today"] | {"code": SENTINEL}
    page = Server("list_codes", codes=[code]).client.list_codes("standup")
    assert page.codes[0].code == SENTINEL
    assert SENTINEL not in printed(page)
    # An unknown field of a newer server may be a secret.
    token = Server("create_token", other=SENTINEL).client.create_token(room="standup", identity="alice")
    assert token.extra == {"other": SENTINEL}
    assert SENTINEL not in printed(token)


def test_a_secret_is_in_the_object_for_its_caller() -> None:
    token = Server("create_token", token=SENTINEL).client.create_token(room="standup", identity="alice")
    assert token.token == SENTINEL
    assert token.to_dict()["token"] == SENTINEL


def test_what_is_printed_can_be_read() -> None:
    when = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    endpoint = models.WebhookEndpoint(id="1", url="https://a.test", active=True, created_at=when)
    absent = "description=None, disabled_at=None, disabled_reason=None, events=None, previous_secret_expires_at=None"
    shown = f"WebhookEndpoint(id='1', url='https://a.test', active=True, created_at={when!r}, {absent})"
    assert repr(endpoint) == shown
    assert repr(made(models.S3Destination)).count("None") == len(dataclasses.fields(models.S3Destination)) - 1


@pytest.mark.parametrize("one", TYPES)
def test_objects_can_be_compared_and_copied_and_not_changed(one: type[Model]) -> None:
    value = made(one)
    assert value == made(one)
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.extra = {}  # type: ignore[misc]


def test_what_is_absent_or_null_is_none() -> None:
    today: dict[str, Any] = OPERATIONS["get_room"]["today"]
    room = Server("get_room", started_at=None, template_id=None).client.get_room("standup")
    assert (room.started_at, room.template_id) == (None, None)
    assert room.to_dict().keys() == today.keys() - {"metadata", "started_at", "template_id"}
    role = Server("get_role", permissions={"record": True, "end_room": None}).client.get_role("tpl_1", "host")
    assert role.permissions == models.RolePermissions(record=True)
    assert role.permissions.end_room is False
    server = Server("create_token")
    server.client.create_token(room="standup", identity="alice", role=None, permissions={"can_publish": None})
    assert server.body == {"room": "standup", "identity": "alice", "permissions": {"can_publish": None}}


def test_the_types_of_values_are_those_of_python() -> None:
    room = Server("get_room").client.get_room("standup")
    assert room.created_at == datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    usage = Server("get_usage", total_participant_minutes=7).client.get_usage(from_=datetime.date(2026, 1, 31))
    assert (usage.days[0].date, usage.total_participant_minutes) == (datetime.date(2026, 1, 31), 7.0)
    assert isinstance(usage.total_participant_minutes, float)


def test_instants_and_bytes_are_sent_as_the_api_has_them() -> None:
    here = datetime.timezone(datetime.timedelta(hours=3))
    server = Server("list_sessions")
    server.client.list_sessions(
        after=datetime.datetime(2026, 1, 31, 12, tzinfo=here), before=datetime.datetime(2026, 1, 31, 12, 0, 0, 1, here)
    )
    query = server.requests[0].url.params
    assert (query["after"], query["before"]) == ("2026-01-31T09:00:00.000Z", "2026-01-31T09:00:00.000001Z")
    server = Server("send_data")
    assert server.client.send_data("standup", data=b"hello", destination_identities=("bob",)).bytes == 7
    assert server.body == {"data": "aGVsbG8=", "destination_identities": ["bob"]}
    server.client.send_data("standup", data="aGVsbG8=")
    assert server.body == {"data": "aGVsbG8="}


def test_what_was_read_can_be_sent() -> None:
    template = Server("get_template").client.get_template("tpl_1")
    server = Server("create_template")
    guest: models.RoleInput = {"hidden": True}
    server.client.create_template(name="copy", roles={**template.roles, "guest": guest})
    today = OPERATIONS["get_template"]["today"]["roles"]
    assert server.body == {"name": "copy", "roles": today | {"guest": {"hidden": True}}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"type": "s3", "bucket": "b", "secret": "***"}, models.S3Destination(bucket="b", secret="***")),
        ({"type": "gcp", "bucket": "b"}, models.GcpDestination(bucket="b")),
        (
            {"type": "azure", "container": "c", "account_name": "a", "later": 7},
            models.AzureDestination(container="c", account_name="a", extra={"later": 7}),
        ),
        ({"urls": ["rtmp://a.test/REDACTED"]}, models.RtmpDestination(urls=["rtmp://a.test/REDACTED"])),
        ({"type": "later", "bucket": "b"}, {"type": "later", "bucket": "b"}),
    ],
)
def test_a_configuration_is_told_by_its_type(config: dict[str, Any], expected: object) -> None:
    server = Server("get_destination", config=config)
    destination = server.client.get_destination("tpl_1", "archive")
    assert destination.config == expected
    assert destination.to_dict()["config"] == config


def test_a_call_can_have_a_time_of_its_own() -> None:
    seen: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return httpx.Response(200, json=OPERATIONS["get_plan"]["today"])

    with Conclave("http://conclave.test", "key", timeout=5, transport=httpx.MockTransport(answer)) as conclave:
        conclave.get_plan(timeout=0.5)
        conclave.get_plan()
    assert [one["read"] for one in seen] == [0.5, 5]
