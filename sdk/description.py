"""Makes the description that the SDKs are generated from, from the OpenAPI description of the API.

What a generator makes of `tests/data/openapi.json` alone is correct and inconvenient: each call returns a union with the error
envelope, and the events of webhooks are missing, since a delivery is no operation. So this module

- removes what the SDKs' own transport does: refusals (it raises them as errors) and credentials (it adds them);
- removes what only a validator reads: examples, links, patterns, and conditions between fields, which the server checks;
- names the pages of lists (`RoomPage`), so that all three languages call them the same;
- adds a schema for each of the 20 events, for the event that tests an endpoint, and their union `Event`.
"""

import json
import re
from pathlib import Path

SCHEMA = "#/components/schemas/"
# Read by validators of requests and by people, and by no generator.
UNUSED = {"example", "examples", "links", "pattern", "minLength", "maxLength", "propertyNames", "discriminator", "not"}
# Ids are opaque texts. Types of their own would make each SDK depend on a library, or each caller convert.
OPAQUE_FORMATS = {"uuid", "uint64"}

PARTICIPANT = {"participant_identity": "Identity", "participant_sid": "ParticipantSid", "role?": "RoleName"}
TRACK = PARTICIPANT | {
    "track_sid": "TrackSid",
    "track_kind": "TrackKind",
    "track_source": "TrackSource",
    "track_muted": {"type": "boolean"},
}
PUBLISH_LIMIT = PARTICIPANT | {
    "publish_kbps": {"type": "integer"},
    "publish_max_kbps": {"type": "integer"},
    "track_sid?": "TrackSid",
}
ROLE_CHANGE = PARTICIPANT | {
    "previous_role?": "RoleName",
    "changed_by_identity?": "Identity",
    "changed_by_api_key_prefix?": {"type": "string"},
}
RECORDING = {"egress_id": "EgressId", "recording_status": "EgressStatus"}
BROADCAST = {"egress_id": "EgressId", "broadcast_status": "EgressStatus"}
INGRESS = {"ingress_id": "IngressId", "ingress_status": "IngressStatus", "participant_identity": "Identity"}

# Each event: when it is sent, and the fields that it has besides those of all. A name with `?` is that of an optional field.
# Compared with docs/webhooks.md by `sdk/generate --check`.
EVENTS = {
    "room.started": ("The first participant has joined.", {}),
    "room.finished": ("The room has ended, and all its sessions are closed.", {}),
    "participant.joined": ("A participant has connected.", PARTICIPANT),
    "participant.left": ("A participant has left cleanly.", PARTICIPANT),
    "participant.connection_aborted": (
        "A join failed, or a connection broke without a clean leave.",
        PARTICIPANT,
    ),
    "participant.role_changed": ("A participant has been given another role.", ROLE_CHANGE),
    "participant.publish_limit_exceeded": (
        "A participant's bitrate has stayed above its role's limit.",
        PUBLISH_LIMIT,
    ),
    "participant.publish_limit_cleared": ("The bitrate has stayed below the limit again.", PUBLISH_LIMIT),
    "track.published": ("A participant has started to publish a track.", TRACK),
    "track.unpublished": ("A track has stopped.", TRACK),
    "recording.started": ("A recording has begun.", RECORDING),
    "recording.updated": ("The status of a recording has changed, and is not final.", RECORDING),
    "recording.ended": ("A recording is final.", RECORDING),
    "recording.failed": ("A recording has failed; sent instead of `recording.ended`.", RECORDING),
    "broadcast.started": ("A broadcast has begun.", BROADCAST),
    "broadcast.updated": ("The status of a broadcast has changed, and is not final.", BROADCAST),
    "broadcast.ended": ("A broadcast is final.", BROADCAST),
    "broadcast.failed": ("A broadcast has failed; sent instead of `broadcast.ended`.", BROADCAST),
    "ingress.started": ("An encoder has connected and publishes.", INGRESS),
    "ingress.ended": ("An encoder has disconnected or stopped publishing.", INGRESS),
}
# Sent to one endpoint by a button of the console. It is about no room; the field is there so that a program may read it from any event.
TEST_EVENT = "webhook.test"
EVERY_EVENT = {"project_id": "ProjectId", "room": "RoomName", "occurred_at": "Timestamp"}
TEST_EVENT_FIELDS = {"project_id": "ProjectId", "room?": "RoomName", "occurred_at": "Timestamp"}


def for_generators(source: Path) -> dict:
    """Returns the description in OpenAPI 3.1."""
    description = json.loads(source.read_text())
    description.pop("servers", None)
    description["components"].pop("securitySchemes", None)
    schemas = description["components"]["schemas"]
    # The SDKs have an error type of their own.
    del schemas["Error"]
    schemas["EventType"] = {"type": "string", "description": "The name of an event.", "enum": list(EVENTS)}
    for path in description["paths"].values():
        for operation in path.values():
            simplify_operation(operation, schemas)
    for name, schema in schemas.items():
        if name.endswith("Word"):
            # The one text by which generated code tells alternatives apart. Other texts may become more.
            [schema["const"]] = schema.pop("enum")
    description = simplify(description)
    description["components"]["schemas"] |= event_schemas()
    return description


def simplify_operation(operation, schemas):
    operation.pop("security", None)
    for parameter in operation.get("parameters", []):
        parameter["schema"] = parameter_schema(parameter["schema"], schemas)
    operation["responses"] = {status: answer for status, answer in operation["responses"].items() if status < "400"}
    for answer in operation["responses"].values():
        content = answer.get("content", {}).get("application/json")
        if content and "has_more" in content["schema"].get("properties", {}):
            content["schema"] = {"$ref": SCHEMA + add_page(content["schema"], schemas)}


def parameter_schema(schema, schemas):
    """Returns the schema of a parameter: without null, since one without a value is left out, and by the name of its words."""
    kind = schema.get("type")
    if isinstance(kind, list):
        [other] = [name for name in kind if name != "null"]
        schema = schema | {"type": other}
    if "oneOf" in schema:
        [schema] = [other for other in schema["oneOf"] if other != {"type": "null"}]
    words = schema.get("enum")
    return next(
        ({"$ref": SCHEMA + name} for name, other in schemas.items() if words and other.get("enum") == words), schema
    )


def add_page(schema, schemas):
    """Adds the schema of a page, and returns its name."""
    items = next(field["items"] for field in schema["properties"].values() if field["type"] == "array")
    name = items["$ref"].removeprefix(SCHEMA) + "Page"
    schemas[name] = schema | {"description": "A page of a list."}
    return name


def simplify(node):
    """Returns a part of the description without what no generator reads."""
    if isinstance(node, list):
        return [simplify(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "properties" in node and "oneOf" in node:
        # Conditions between the fields, not alternatives.
        node = {key: value for key, value in node.items() if key != "oneOf"}
    if node.get("format") in OPAQUE_FORMATS:
        node = {key: value for key, value in node.items() if key != "format"}
    # The names of fields and schemas are no keywords.
    named = {"properties", "schemas", "paths"}
    return {
        key: {name: simplify(part) for name, part in value.items()} if key in named else simplify(value)
        for key, value in node.items()
        if key not in UNUSED
    }


def schema_name(event_type):
    return "".join(part.title() for part in event_type.replace(".", "_").split("_")) + "Event"


def event_schemas():
    """Returns the schema of each event, and that of their union."""
    schemas = {schema_name(name): event_schema(name, *event) for name, event in EVENTS.items()}
    schemas[schema_name(TEST_EVENT)] = event_schema(
        TEST_EVENT, "Sent by the console to test an endpoint. It is about no room.", {}, every=TEST_EVENT_FIELDS
    )
    union = [{"$ref": SCHEMA + name} for name in schemas]
    text = "What a webhook reports: one of the 20 events, or the event that tests an endpoint."
    return schemas | {"Event": {"description": text, "oneOf": union}}


def event_schema(name, description, fields, every=None):
    properties = {"type": {"type": "string", "const": name}}
    required = ["type"]
    for field, schema in ((every or EVERY_EVENT) | fields).items():
        properties[field.removesuffix("?")] = {"$ref": SCHEMA + schema} if isinstance(schema, str) else schema
        if not field.endswith("?"):
            required.append(field)
    return {"type": "object", "description": description, "properties": properties, "required": required}


# ------------------------------------------------------------------------------------------------------ names and secrets


def argument_name(path, parameter):
    """Returns what a parameter in a path is called where it is an argument: by what it names, such as `room` or `template_id`."""
    if parameter not in ("name", "id"):
        return parameter
    before = path.partition("/{" + parameter + "}")[0].rpartition("/")[2]
    subject = before.replace("-", "_").replace("deliveries", "delivery").removesuffix("s")
    return subject if parameter == "name" else f"{subject}_id"


# The schemas of credentials; the urls of receivers have stream keys.
SECRET_SCHEMAS = {SCHEMA + name for name in ("Credential", "NewCredential", "NewSessionToken", "RtmpUrl")}
SECRET_FIELDS = {"token", "secret", "stream_key", "session_token", "code"}
# What sounds like a secret, and is none: the name of a key.
PUBLIC_FIELDS = {"access_key", "changed_by_api_key_prefix"}


def is_secret(name, schema):
    """Tells whether a field of an object is not to be printed with the object.

    Raises:
        ValueError: if that cannot be told from its name.
    """
    if {schema.get("$ref"), schema.get("items", {}).get("$ref")} & SECRET_SCHEMAS:
        return True
    is_text = schema.get("type") == "string" or "$ref" in schema
    sounds_so = re.search(r"(^|_)(token|secret|key|credentials?|password|code)(_|$)", name)
    if is_text and sounds_so and name not in SECRET_FIELDS | PUBLIC_FIELDS:
        raise ValueError(f"is {name} a secret? Add it to SECRET_FIELDS or PUBLIC_FIELDS")
    return is_text and name in SECRET_FIELDS
