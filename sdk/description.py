"""Creates the description for the SDK generators from the API's OpenAPI descriptions.

A generator's output for `tests/data/openapi.json` alone is correct and inconvenient: each call returns a union with the error
envelope, and webhook events are not named types. So this module

- puts the operations below `/ext/v1` beside those of the contract (`is_extension` tells them apart): clients have them as `ext`;
- removes refusals, which the SDKs' transport raises as errors, and credentials, which it adds;
- removes validation: examples, links, patterns, and conditions between fields, which the server checks;
- names list pages (`RoomPage`), so that all three languages use the same names;
- adds a schema for each event of the section `webhooks`, and their union `Event`.
"""

import json
import re
from pathlib import Path

SCHEMA = "#/components/schemas/"
# Keywords for validators and readers, without effect on generated code.
UNUSED = {"example", "examples", "links", "pattern", "minLength", "maxLength", "propertyNames", "discriminator", "not"}
# Ids are opaque texts. Separate types would require a library in each SDK, or conversions by each caller.
OPAQUE_FORMATS = {"uuid", "uint64"}


def whole(sources: list[Path]) -> dict:
    """Merges the descriptions."""
    first, *others = [json.loads(source.read_text()) for source in sources]
    for other in others:
        first["paths"] |= other["paths"]
        # Lists the extensions' error codes, too.
        first["components"]["schemas"]["Error"] = other["components"]["schemas"].pop("Error")
        for name, schema in other["components"]["schemas"].items():
            if first["components"]["schemas"].setdefault(name, schema) != schema:
                raise ValueError(f"the descriptions have two schemas {name}")
    return first


def has_added_query(path, operation):
    """Returns whether all query parameters of an operation of the contract are extensions.

    Programs call its method without them, so they must not change the place of another argument.
    """
    query = [one for one in operation.get("parameters", []) if one["in"] == "query"]
    return bool(query) and not is_extension(path) and all(one.get("x-extension") for one in query)


def is_extension(path: str) -> bool:
    """Returns whether a path is beyond the contract."""
    return path.startswith("/ext/")


def for_generators(sources: list[Path]) -> dict:
    """Returns the description as OpenAPI 3.1."""
    description = whole(sources)
    description.pop("servers", None)
    description["components"].pop("securitySchemes", None)
    schemas = description["components"]["schemas"]
    # The SDKs have an error type of their own.
    del schemas["Error"]
    names = event_types(description["paths"])
    schemas["EventType"] = {"type": "string", "description": "The name of an event.", "enum": names}
    events = {name: item["post"] for name, item in description.pop("webhooks").items()}
    # The filter lacks the event that only one endpoint receives.
    events = {name: events[name] for name in [*names, *(name for name in events if name not in names)]}
    schemas |= {schema_name(name): event_schema(event) for name, event in events.items()}
    for path in description["paths"].values():
        for operation in path.values():
            simplify_operation(operation, schemas)
    for name, schema in schemas.items():
        if name.endswith("Word"):
            # The text by which generated code selects an alternative. Other enumerations may grow.
            [schema["const"]] = schema.pop("enum")
    union = [{"$ref": SCHEMA + schema_name(name)} for name in events]
    text = f"What a webhook reports: one of the {len(names)} events, or the event that tests an endpoint."
    schemas["Event"] = {"description": text, "oneOf": union}
    return simplify(description)


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
    """Returns a parameter's schema: without null, since a parameter without a value is omitted, and by the name of its enumeration."""
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
    """Adds a page's schema, and returns its name."""
    items = next(field["items"] for field in schema["properties"].values() if field["type"] == "array")
    name = items["$ref"].removeprefix(SCHEMA) + "Page"
    schemas[name] = schema | {"description": "A page of a list."}
    return name


def simplify(node):
    """Returns a part of the description without the keywords in UNUSED."""
    if isinstance(node, list):
        return [simplify(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "properties" in node and "oneOf" in node:
        # Conditions between the fields, not alternatives.
        node = {key: value for key, value in node.items() if key != "oneOf"}
    if node.get("format") in OPAQUE_FORMATS:
        node = {key: value for key, value in node.items() if key != "format"}
    # Names of fields and schemas are not keywords.
    named = {"properties", "schemas", "paths"}
    return {
        key: {name: simplify(part) for name, part in value.items()} if key in named else simplify(value)
        for key, value in node.items()
        if key not in UNUSED
    }


def schema_name(event_type):
    return "".join(part.title() for part in event_type.replace(".", "_").split("_")) + "Event"


def event_types(paths):
    """Returns the event names in the order of the delivery filter."""
    parameters = [one for item in paths.values() for operation in item.values() for one in operation["parameters"]]
    [schema] = [one["schema"] for one in parameters if one["name"] == "event_type"]
    return parameter_schema(schema, {})["enum"]


def event_schema(event):
    """Returns an event's schema, with the required fields first."""
    schema = event["requestBody"]["content"]["application/json"]["schema"]
    properties, required = dict(schema["properties"]), schema["required"]
    [name] = properties["type"]["enum"]
    properties["type"] = {"type": "string", "const": name}
    # Programs can read it from any event, even if the event has no room.
    properties.setdefault("room", {"$ref": SCHEMA + "RoomName"})
    order = sorted(properties, key=lambda field: (required + [field]).index(field))
    properties = {field: properties[field] for field in order}
    return {"type": "object", "description": event["summary"] + ".", "properties": properties, "required": required}


def event_names(description):
    """Returns each event's name and its schema's name, in the order of the union."""
    schemas = description["components"]["schemas"]
    names = [one["$ref"].removeprefix(SCHEMA) for one in schemas["Event"]["oneOf"]]
    return {schemas[name]["properties"]["type"]["const"]: name for name in names}


# ------------------------------------------------------------------------------------------------------ names and secrets


def argument_name(path, parameter):
    """Returns a path parameter's name as an argument, after its subject, such as `room` or `template_id`."""
    if parameter not in ("name", "id"):
        return parameter
    before = path.partition("/{" + parameter + "}")[0].rpartition("/")[2]
    subject = before.replace("-", "_").replace("deliveries", "delivery").removesuffix("s")
    return subject if parameter == "name" else f"{subject}_id"


# Schemas of credentials; receiver URLs contain stream keys.
SECRET_SCHEMAS = {SCHEMA + name for name in ("Credential", "NewCredential", "NewSessionToken", "RtmpUrl")}
SECRET_FIELDS = {"token", "secret", "stream_key", "session_token", "code"}
# Fields that match the secrets' pattern without being secret, such as a key's name.
PUBLIC_FIELDS = {"access_key", "changed_by_api_key_prefix", "previous_secret_expires_at"}


def is_secret(name, schema):
    """Returns whether an object's printed form omits a field.

    Raises:
        ValueError: if its name does not decide.
    """
    if {schema.get("$ref"), schema.get("items", {}).get("$ref")} & SECRET_SCHEMAS:
        return True
    is_text = schema.get("type") == "string" or "$ref" in schema
    sounds_so = re.search(r"(^|_)(token|secret|key|credentials?|password|code)(_|$)", name)
    if is_text and sounds_so and name not in SECRET_FIELDS | PUBLIC_FIELDS:
        raise ValueError(f"is {name} a secret? Add it to SECRET_FIELDS or PUBLIC_FIELDS")
    return is_text and name in SECRET_FIELDS
