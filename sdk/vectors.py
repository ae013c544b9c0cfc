"""Creates the deliveries for the unit tests of all SDKs: `sdk/vectors.json`.

One delivery per event in the description, and one per possible defect, with the expected result of `verify`. The first is the
delivery in the server's own test in `outbound/src/webhook/signature.rs`, so that both sides compute the same signature.
"""

import base64
import hashlib
import hmac
import json

import responses
from description import SCHEMA, event_names

# The bytes 0 to 31.
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OTHER = "whsec_" + base64.b64encode(b"x" * 32).decode()
ID = "0192f5a0-0000-7000-8000-000000000001"
NOW = 1_700_000_000
TOLERANCE = 300


class Events:
    """The description's events, and bodies of them."""

    def __init__(self, description, original):
        self.schemas = description["components"]["schemas"]
        self.named = event_names(description)
        bodies = {name: item["post"]["requestBody"]["content"] for name, item in original["webhooks"].items()}
        self.bodies = {name: content["application/json"] for name, content in bodies.items()}
        # All except the endpoint test event.
        self.names = self.schemas["EventType"]["enum"]
        self.others = [name for name in self.named if name not in self.names]

    def sample(self, name):
        """Returns an event body with all fields that the server sends: the example's, and values for the others."""
        sent, example = self.bodies[name]["schema"]["properties"], self.bodies[name]["example"]
        return written({field: value for field, value in (self.body(name, False) | example).items() if field in sent})

    def newer(self, name):
        """Returns an event body with enumeration values and a field that are unknown today."""
        fields = self.body(name, True)
        words = {field: value for field, value in fields.items() if value == "later"}
        return changed(self.sample(name), later=fields["later"], **words)

    def body(self, name, newer):
        return responses.sample({"$ref": SCHEMA + self.named[name]}, self.schemas, newer)


def make(description, original):
    """Returns the whole file, from the generators' description and the server's."""
    events = Events(description, original)
    good = events.sample("participant.joined")
    signed = headers(good)
    server_body = '{"type":"room.started","room":"Küche"}'
    cases = [
        # Signed, but without all fields of an event.
        case("the example of the server", server_body, headers(server_body), "malformed"),
        *[case(f"{name}, signed", body, headers(body), name) for name, body in map_of(events.sample, events.names)],
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
            headers(good, secret=OTHER),
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
        case("after a rotation, with the new secret", good, rotated(good, OTHER, SECRET), "participant.joined"),
        case("after a rotation, with the old secret", good, rotated(good, SECRET, OTHER), "participant.joined"),
        case("after a rotation, with another secret", good, rotated(good, OTHER, OTHER), "wrong_signature"),
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
    return {"secret": SECRET, "now": NOW, "cases": cases, "beside": beside(events)}


def beside(events):
    """Returns the deliveries besides today's events: the endpoint test event, and a newer server's events."""
    roomless = '{"type":"project.renamed"}'
    return [
        *[case(name, body, headers(body), name) for name, body in map_of(events.sample, events.others)],
        *[case(f"{name}, newer", body, headers(body), name) for name, body in map_of(events.newer, events.named)],
        case("a newer event about no room", roomless, headers(roomless), "unknown_event"),
    ]


def rotated(body, old, new):
    """Returns the headers of a delivery during the overlap of two secrets."""
    by_old, by_new = headers(body, secret=old), headers(body, secret=new)
    both = f"{by_new['webhook-signature']} {by_old['webhook-signature']}"
    return by_old | {"X-Svc-Signature-Next": by_new["X-Svc-Signature"], "webhook-signature": both}


def case(name, body, headers, expect, tolerance=TOLERANCE):
    return {"name": name, "body": body, "headers": headers, "tolerance": tolerance, "expect": expect}


def map_of(function, names):
    return [(name, function(name)) for name in names]


def changed(body, **fields):
    return written(json.loads(body) | fields)


def written(fields):
    return json.dumps(fields, separators=(",", ":"))


def without(headers, name):
    return {other: value for other, value in headers.items() if other != name}


def headers(body, *, sent_at=NOW, secret=SECRET):
    """Returns the server's headers for a body."""
    raw = body.encode()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    standard = hmac.digest(key, f"{ID}.{sent_at}.".encode() + raw, hashlib.sha256)
    return {
        "X-Svc-Signature": "sha256=" + hmac.digest(secret.encode(), raw, hashlib.sha256).hex(),
        "webhook-id": ID,
        "webhook-timestamp": str(sent_at),
        "webhook-signature": "v1," + base64.b64encode(standard).decode(),
    }
