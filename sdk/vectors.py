"""Makes the deliveries that the unit tests of all SDKs verify: `sdk/vectors.json`.

One delivery of each event, and each way in which a delivery can be wrong, with what `verify` must say. The first is that of
the server's own test in `outbound/src/webhook/signature.rs`, so that both sides compute the same.
"""

import base64
import hashlib
import hmac
import json

from description import EVENTS, EVERY_EVENT, TEST_EVENT

# The bytes 0 to 31.
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
ID = "0192f5a0-0000-7000-8000-000000000001"
NOW = 1_700_000_000
TOLERANCE = 300

SAMPLES = {
    "ProjectId": "prj_5f2a9c01be34",
    "RoomName": "standup",
    "Timestamp": "2026-01-31T12:00:00.000Z",
    "Identity": "alice",
    "ParticipantSid": "PA_7uXkTq2m",
    "RoleName": "host",
    "TrackSid": "TR_3cD9xY1kQmZb",
    "TrackKind": "video",
    "TrackSource": "camera",
    "EgressId": "EG_1",
    "EgressStatus": "active",
    "IngressId": "IN_1",
    "IngressStatus": "publishing",
}
SAMPLES_OF_TYPES = {"boolean": False, "integer": 1500, "string": "vk_test_abcd"}


def make():
    """Returns the whole file."""
    good = sample("participant.joined")
    signed = headers(good)
    server_body = '{"type":"room.started","room":"Küche"}'
    cases = [
        # Signed, but not with all fields of an event.
        case("the example of the server", server_body, headers(server_body), "malformed"),
        *[case(f"{name}, signed", sample(name), headers(sample(name)), name) for name in EVENTS],
        case(
            "header names in another case",
            good,
            {name.upper(): value for name, value in signed.items()},
            "participant.joined",
        ),
        case(
            "several signatures, one of which is right",
            good,
            signed | {"webhook-signature": "v1,AAAA " + signed["webhook-signature"]},
            "participant.joined",
        ),
        case("the standard signature alone", good, without(signed, "X-Svc-Signature"), "participant.joined"),
        case(
            "a field that this version does not know",
            changed(good, later="yes"),
            headers(changed(good, later="yes")),
            "participant.joined",
        ),
        case("as old as is allowed", good, headers(good, sent_at=NOW - TOLERANCE), "participant.joined"),
        case("signed without a time", good, headers(good, sent_at="") | {"webhook-timestamp": ""}, "outside_tolerance"),
        case("too old", good, headers(good, sent_at=NOW - TOLERANCE - 1), "outside_tolerance"),
        case("too new", good, headers(good, sent_at=NOW + TOLERANCE + 1), "outside_tolerance"),
        case(
            "old, with any age allowed",
            good,
            headers(good, sent_at=NOW - 100_000),
            "participant.joined",
            tolerance=None,
        ),
        case(
            "an old one with the time of a new one",
            good,
            headers(good, sent_at=NOW - 1000) | {"webhook-timestamp": str(NOW)},
            "wrong_signature",
        ),
        case("the id of another delivery", good, signed | {"webhook-id": ID.replace("1", "2")}, "wrong_signature"),
        case("an altered body", good.replace("alice", "mallory"), signed, "wrong_signature"),
        case("a body with a further space", good + " ", signed, "wrong_signature"),
        case(
            "another secret",
            good,
            headers(good, secret="whsec_" + base64.b64encode(b"x" * 32).decode()),
            "wrong_signature",
        ),
        case(
            "one wrong signature of the two",
            good,
            signed | {"X-Svc-Signature": "sha256=" + "0" * 64},
            "wrong_signature",
        ),
        case(
            "the other wrong signature of the two", good, signed | {"webhook-signature": "v1,AAAA"}, "wrong_signature"
        ),
        case("an empty signature", good, signed | {"webhook-signature": ""}, "wrong_signature"),
        case("no signature", good, {"Content-Type": "application/json"}, "unsigned"),
        case("no signature, with any age allowed", good, {}, "unsigned", tolerance=None),
        case("no signature with a time", good, {"X-Svc-Signature": signed["X-Svc-Signature"]}, "unsigned"),
        case(
            "no signature with a time, with any age allowed",
            good,
            {"X-Svc-Signature": signed["X-Svc-Signature"]},
            "participant.joined",
            tolerance=None,
        ),
        case("no JSON", "no JSON", headers("no JSON"), "malformed"),
        case("no object", "[]", headers("[]"), "malformed"),
        case("no type", '{"room":"standup"}', headers('{"room":"standup"}'), "malformed"),
        case("a type that is no text", changed(good, type=7), headers(changed(good, type=7)), "malformed"),
        case(
            "an event of a newer server",
            changed(good, type="room.renamed"),
            headers(changed(good, type="room.renamed")),
            "unknown_event",
        ),
    ]
    return {"secret": SECRET, "now": NOW, "cases": cases, "beside": beside()}


def beside():
    """Returns the deliveries beside the 20 events of today: the event that tests an endpoint, and what a newer server sends."""
    roomless = '{"type":"project.renamed"}'
    return [
        case(TEST_EVENT, sample(TEST_EVENT), headers(sample(TEST_EVENT)), TEST_EVENT),
        *[case(f"{name}, newer", newer(name), headers(newer(name)), name) for name in (*EVENTS, TEST_EVENT)],
        case("a newer event about no room", roomless, headers(roomless), "unknown_event"),
    ]


def case(name, body, headers, expect, tolerance=TOLERANCE):
    return {"name": name, "body": body, "headers": headers, "tolerance": tolerance, "expect": expect}


def sample(event_type):
    """Returns the body of an event with all its fields, the optional ones too."""
    if event_type == TEST_EVENT:
        # As the server sends it: without a room.
        fields = {name: schema for name, schema in EVERY_EVENT.items() if name != "room"}
    else:
        fields = EVERY_EVENT | EVENTS[event_type][1]
    values = {name.removesuffix("?"): sample_value(schema) for name, schema in fields.items()}
    return json.dumps({"type": event_type} | values, separators=(",", ":"))


def newer(event_type):
    """Returns the body of an event with words and a field that are not known today."""
    words = {"track_kind", "track_source", "recording_status", "broadcast_status", "ingress_status"}
    event = json.loads(sample(event_type))
    return changed(json.dumps(event), later={"more": [1]}, **{name: "later" for name in words & event.keys()})


def sample_value(schema):
    return SAMPLES[schema] if isinstance(schema, str) else SAMPLES_OF_TYPES[schema["type"]]


def changed(body, **fields):
    return json.dumps(json.loads(body) | fields, separators=(",", ":"))


def without(headers, name):
    return {other: value for other, value in headers.items() if other != name}


def headers(body, *, sent_at=NOW, secret=SECRET):
    """Returns the headers that the server would send with a body."""
    raw = body.encode()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    standard = hmac.digest(key, f"{ID}.{sent_at}.".encode() + raw, hashlib.sha256)
    return {
        "X-Svc-Signature": "sha256=" + hmac.digest(secret.encode(), raw, hashlib.sha256).hex(),
        "webhook-id": ID,
        "webhook-timestamp": str(sent_at),
        "webhook-signature": "v1," + base64.b64encode(standard).decode(),
    }
