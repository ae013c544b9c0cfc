"""A backend's actions with the Python SDK, against a real server behind the proxy of scripts/check sdks."""

import asyncio
import datetime
import json
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from conclave_sdk import AsyncConclave, Conclave, ConclaveError, RetryPolicy, webhooks
from conclave_sdk.models import RoleInput, RtmpDestination, S3Destination, Template
from conclave_sdk.webhooks import Event, Receiver, WebhookError
from fastapi import FastAPI, Request, Response
from starlette.routing import Route

URL, KEY = os.environ["CONCLAVE_URL"], os.environ["CONCLAVE_KEY"]
NAME = "python-lesson"


def check(what: str, passed: bool) -> None:
    print(f"    {'ok    ' if passed else 'FAILED'} {what}", flush=True)
    if not passed:
        sys.exit(1)


def within(what: str, done: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not done() and time.monotonic() < until:
        time.sleep(0.1)
    check(what, done())


def order(path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401
    """Requests a fault from the proxy, or an action of a simulated client from the sandbox."""
    data = json.dumps(body or {}).encode()
    request = urllib.request.Request(URL + path, data=data, headers={"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
        return json.loads(response.read() or b"null")


def refused(code: str, call: Callable[[], object]) -> ConclaveError:
    try:
        call()
    except ConclaveError as error:
        check(f"refused with {code}", error.code == code)
        return error
    check(f"refused with {code}", False)
    raise AssertionError


def fetched(link: str) -> tuple[int, str]:
    """Returns the response to a browser's request for a link."""
    try:
        with urllib.request.urlopen(link, timeout=20) as response:  # noqa: S310
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Deliveries:
    """An application with two receivers: the SDK's own, and a manual one that verifies and records deliveries."""

    def __init__(self) -> None:
        self.handled: dict[str, Event] = {}
        self.raw: list[tuple[bytes, dict[str, str]]] = []
        self.secrets: dict[str, str] = {}
        self.not_typed: list[str] = []
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = FastAPI()
        app.add_api_route("/raw", self.verify, methods=["POST"])
        # The secret is known once the endpoint is registered.
        self.app = app
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        threading.Thread(target=server.run, args=([listener],), daemon=True).start()

    def register(self, conclave: Conclave) -> None:
        hooks = conclave.create_webhook_endpoint(url=self.url + "/hooks")
        self.app.router.routes.append(Route("/hooks", Receiver(hooks.secret, self.handle)))
        self.secrets["/raw"] = conclave.create_webhook_endpoint(url=self.url + "/raw").secret

    async def handle(self, event: Event, delivery_id: str) -> None:
        self.handled[delivery_id] = event

    async def verify(self, request: Request) -> Response:
        body, headers = await request.body(), dict(request.headers)
        event = webhooks.verify(body, headers, self.secrets["/raw"])
        self.not_typed += [f"{event.type}: {field}" for field in event.extra]
        self.raw.append((body, headers))
        return Response(status_code=204)

    def types(self) -> set[str]:
        return {event.type for event in list(self.handled.values())}


def a_lesson(conclave: Conclave, deliveries: Deliveries) -> str:
    teacher = RoleInput(permissions={"mute_others": True, "unmute_others": True})
    template = conclave.create_template(name="python", roles={"teacher": teacher, "student": {}})
    check("a template with two roles", template.roles.keys() == {"teacher", "student"})
    check("its permissions", template.roles["teacher"].permissions.mute_others is True)
    destinations(conclave, template)
    room = conclave.create_room(name=NAME, template_id=template.id, metadata={"class": [5, "b"]})
    check("a room with metadata", room.status == "open" and room.metadata == {"class": [5, "b"]})

    token = conclave.create_token(room=NAME, identity="alice", role="teacher").token
    alice = order("/sandbox/join", {"token": token})["sid"]
    code = conclave.create_code(NAME, role="student", identity="bob", max_uses=1)
    exchanged = conclave.exchange_code(code.code)
    check("a code for a token", exchanged.role == "student")
    order("/sandbox/join", {"token": exchanged.token})
    track = order(f"/sandbox/participants/{alice}/tracks", {"kind": "video", "source": "camera"})["sid"]

    check("two participants", {one.identity for one in conclave.all_participants(NAME)} == {"alice", "bob"})
    check("muted", conclave.mute_track(NAME, "alice", track_sid=track, muted=True).track.muted)
    check("data", conclave.send_data(NAME, data=b"hello", destination_identities=["bob"]).bytes == 5)
    changed = conclave.change_role(NAME, "bob", role="teacher")
    check("another role", (changed.role_change.previous_role, changed.role_change.role) == ("student", "teacher"))
    conclave.remove_participant(NAME, "bob")
    check("gone", refused("participant_not_found", lambda: conclave.get_participant(NAME, "bob")).status == 404)

    recording = conclave.start_recording(NAME, type="room_composite", layout="grid").egress_id
    within("the recording is active", lambda: conclave.get_recording(recording).status == "active")
    refused("recording_not_found", lambda: conclave.recording_link(recording))
    conclave.stop_recording(recording)
    within("the recording is complete", lambda: conclave.get_recording(recording).status == "complete")
    link = a_link(conclave, recording)
    an_hour_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    [bob] = conclave.all_sessions(identity="bob", after=an_hour_ago)
    check("a session", bool(bob.left_at) and bob.room == NAME)

    expected = {"room.started", "participant.joined", "track.published", "participant.role_changed"}
    expected |= {"participant.left", "recording.started", "recording.ended"}
    within("every event was received and verified", lambda: expected <= deliveries.types())
    joined = [e for e in deliveries.handled.values() if e.type == "participant.joined"]
    check("typed events", {event.participant_identity for event in joined} == {"alice", "bob"})
    return link


def destinations(conclave: Conclave, template: Template) -> None:
    copied = conclave.create_template(name="copy", roles=template.roles, settings=template.settings)
    check("a template from what was read", copied.roles == template.roles)
    live = conclave.create_destination(
        copied.id, name="live", kind="rtmp", config={"urls": ["rtmp://live.example.com/app/stream-key"]}
    )
    check("a destination of broadcasts", isinstance(live.config, RtmpDestination) and "stream-key" not in repr(live))
    archive = conclave.create_destination(
        copied.id,
        name="archive",
        kind="recording",
        config={"type": "s3", "bucket": "lessons", "access_key": "AKIA", "secret": "of-s3", "region": "eu-west-1"},
    )
    check("one of recordings", isinstance(archive.config, S3Destination) and archive.config.access_key == "AKIA")
    changed = conclave.update_destination(copied.id, "archive", config={"type": "s3", "bucket": "other"})
    check("another bucket", isinstance(changed.config, S3Destination) and changed.config.bucket == "other")


def a_link(conclave: Conclave, recording: str) -> str:
    """Returns a link to a recording's file, which needs no key."""
    record = conclave.get_recording(recording)
    order("/recording", {"path": f"{record.project_id}/{record.filepath}", "text": NAME})
    link = conclave.recording_link(recording)
    check("a link to its file", fetched(link) == (200, NAME))
    check("an altered link is refused", fetched(link.replace("expires=1", "expires=2"))[0] == 401)
    short = conclave.recording_link(recording, expires_in_seconds=1)
    within("a link expires", lambda: fetched(short)[0] == 401)
    return link


def what_is_not_a_delivery(deliveries: Deliveries) -> None:
    within("a delivery was kept", lambda: bool(deliveries.raw))
    body, headers = deliveries.raw[0]
    secret = deliveries.secrets["/raw"]

    def reason(body: bytes, headers: dict[str, str], now: float | None = None) -> str | None:
        try:
            webhooks.verify(body, headers, secret, now=now)
        except WebhookError as error:
            return error.reason
        return None

    check("it is verified again", reason(body, headers) is None)
    check("an altered one is refused", reason(body.replace(b"python", b"pythom"), headers) == "wrong_signature")
    check("an old one is refused", reason(body, headers, time.time() + 400) == "outside_tolerance")
    old = headers | {"webhook-timestamp": str(int(time.time()) + 100)}
    check("one with another time is refused", reason(body, old) == "wrong_signature")
    check("one without a time is refused", reason(body, {"X-Svc-Signature": headers["x-svc-signature"]}) == "unsigned")


def many_rooms(conclave: Conclave) -> None:
    names = [f"python-{number}" for number in range(7)]
    for name in names:
        conclave.create_room(name=name)
    check("an iterator over pages", [room.name for room in conclave.all_rooms(limit=3)] == [*names[::-1], NAME])
    check("a page", conclave.list_rooms(limit=3).has_more)

    async def same() -> list[str]:
        async with AsyncConclave(URL, KEY) as other:
            return [room.name async for room in other.all_rooms(limit=4)]

    check("the same with asyncio", asyncio.run(same()) == [*names[::-1], NAME])


def faults(conclave: Conclave) -> None:
    with ThreadPoolExecutor(12) as pool:
        plans = [plan.result().plan_id for plan in [pool.submit(conclave.get_plan) for _ in range(90)]]
    check("90 calls at once, beyond the rate", len(plans) == 90)
    with Conclave(URL, KEY, retry=RetryPolicy(max_retries=0)) as impatient, ThreadPoolExecutor(12) as pool:

        def limited(_: int) -> float | None:
            try:
                impatient.get_plan()
            except ConclaveError as error:
                return error.retry_after if error.code == "rate_limited" else None
            return None

        # Repeated on a slow machine, where the rate is not exceeded at once.
        within(
            "without repeats, an error that says when",
            lambda: max(wait or 0 for wait in pool.map(limited, range(90))) >= 1,
        )

    order("/sandbox/outage", {"seconds": 2})
    check("after an outage of the media plane", len(conclave.list_participants(NAME).participants) == 1)
    order("/faults", {"match": "POST /v1/rooms", "answer": 503, "retry_after": 1, "times": 2})
    check("after two 503", conclave.create_room(name="python-503").status == "open")
    order("/faults", {"match": "GET /v1/plan", "answer": 503, "retry_after": 3600, "times": 1})
    check("a long wait is told", refused("media_unavailable", conclave.get_plan).retry_after == 3600)
    order("/faults", {"match": "POST /v1/rooms", "answer": "cut", "times": 1})
    check("after a cut answer", conclave.create_room(name="python-cut").status == "open")
    order("/faults", {"match": f"POST /v1/rooms/{NAME}/ingress", "answer": "cut", "times": 1})
    error = refused(
        "connection_failed",
        lambda: conclave.create_ingress(NAME, input_type="whip", participant_identity="encoder"),
    )
    check("what cannot be repeated is not", error.status is None and len(conclave.list_ingresses().ingresses) == 1)


def refusals(conclave: Conclave) -> None:
    error = refused("room_exists", lambda: conclave.create_room(name=NAME))
    check("its status and request id", error.status == 409 and bool(error.request_id))
    check("its field", refused("invalid_room_name", lambda: conclave.create_room(name="/")).field == "name")
    with Conclave(URL, "vk_test_wrong") as stranger:
        check("a wrong key", refused("unauthorized", stranger.get_plan).status == 401)


def main() -> None:
    # The server restarts within a call's retries.
    with Conclave(URL, KEY, retry=RetryPolicy(max_retries=8)) as conclave:
        deliveries = Deliveries()
        deliveries.register(conclave)
        link = a_lesson(conclave, deliveries)
        what_is_not_a_delivery(deliveries)
        many_rooms(conclave)
        refusals(conclave)
        faults(conclave)
        order("/kill")
        check("after a kill", conclave.create_room(name="python-kill").status == "open")
        check("nothing is lost", conclave.get_room(NAME).status == "open")
        check("the link is still valid", fetched(link) == (200, NAME))
        conclave.end_room(NAME)
        within("its end is reported", lambda: "room.finished" in deliveries.types())
        check(f"every field of the events is typed {deliveries.not_typed}", not deliveries.not_typed)


main()
