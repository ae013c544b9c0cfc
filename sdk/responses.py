"""Successful API responses, as a table for the SDKs and as samples for their unit tests.

Each SDK compares a response with the status and the JSON that the operation declares: a proxy's page or another server's JSON is an
error and not an empty result. TypeScript uses this table, Python the one by `write_python.py`, and Go derives it from its types.

A type in the table is a text: `string`, `integer`, `number`, `boolean`, `null`, `timestamp`, `date`, `object` or `any`, the name of
an object of the table, `T[]` for an array, `T{}` for an object whose values are of type T, and `T|U` for alternatives. The words of
enumerations are not compared, nor are fields that the table does not have: a newer server may add both.
"""

import json

from description import SCHEMA

FORMATS = {"date-time": "timestamp", "date": "date"}
# An entry besides the description's operations.
LINK = "recording_link"
SAMPLES = {
    "timestamp": "2026-01-31T12:00:00.000Z",
    "date": "2026-01-31",
    "string": "text",
    "integer": 7,
    "number": 1.5,
    "boolean": True,
}


class Table:
    """The responses of each operation, and the objects in them."""

    def __init__(self, description):
        self.schemas = description["components"]["schemas"]
        self.objects = {"RecordingLink": {"path": "string", "expires_at?": "string"}}
        self.responses = {LINK: {"method": "GET", "path": "/files/recordings/{egress_id}/link", "statuses": [200]}}
        self.responses[LINK]["type"] = "RecordingLink"
        for path, item in description["paths"].items():
            for method, operation in item.items():
                answers = operation["responses"]
                types = {self.body_type(answer) for answer in answers.values()}
                [body_type] = types
                entry = {"method": method.upper(), "path": path, "statuses": sorted(map(int, answers))}
                self.responses[operation["operationId"]] = entry | {"type": body_type}

    def body_type(self, answer):
        content = answer.get("content")
        return self.type_of(content["application/json"]["schema"]) if content else None

    def type_of(self, schema):
        if "$ref" in schema:
            return self.type_of_name(schema["$ref"].removeprefix(SCHEMA))
        if "oneOf" in schema:
            types = {self.type_of(one) for one in schema["oneOf"]}
            # The reader determines the member; newer servers may have more.
            objects = {one for one in types if one == "object" or one in self.objects}
            return "|".join(sorted(types - objects) + ["object"]) if len(objects) > 1 else "|".join(sorted(types))
        kinds = schema.get("type", "any")
        return "|".join(self.type_of_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds))

    def type_of_name(self, name):
        schema = self.schemas[name]
        properties, required = fields(schema, self.schemas)
        if not properties:
            return self.type_of(schema)
        if name not in self.objects:
            self.objects[name] = {}
            self.objects[name] |= {
                field if field in required else f"{field}?": self.type_of(part) for field, part in properties.items()
            }
        return name

    def type_of_kind(self, kind, schema):
        if kind == "array":
            return in_brackets(self.type_of(schema["items"]), "[]")
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return in_brackets(self.type_of(schema["additionalProperties"]), "{}")
        return FORMATS.get(schema.get("format"), kind)

    def used(self):
        """Returns the responses and the objects in them."""
        found, waiting = {}, [one["type"] for one in self.responses.values()]
        while waiting:
            for name in parts(waiting.pop()):
                if name in self.objects and name not in found:
                    found[name] = self.objects[name]
                    waiting += self.objects[name].values()
        return dict(sorted(self.responses.items())), dict(sorted(found.items()))


def in_brackets(inner, brackets):
    if "|" in inner:
        raise ValueError(f"the table has no arrays of alternatives: {inner}")
    return inner + brackets


def parts(body_type):
    return [one.rstrip("[]{}") for one in (body_type or "").split("|")]


def fields(schema, schemas):
    """Returns an object's properties and the names of the required ones, including those inherited by `allOf`."""
    properties, required = dict(schema.get("properties", {})), set(schema.get("required", []))
    for part in schema.get("allOf", []):
        whole = schemas[part["$ref"].removeprefix(SCHEMA)] if "$ref" in part else part
        further, also_required = fields(whole, schemas)
        properties |= further
        required |= also_required
    return properties, required


# ------------------------------------------------------------------------------------------------------ for the languages


def write_typescript(description, output):
    responses, objects = Table(description).used()
    lines = ["// The successful responses of the API, as `sdk/responses.py` describes them.", ""]
    lines += ["export const RESPONSES: Record<string, { statuses: number[]; type?: string }> = {"]
    for one in responses.values():
        body_type = f", type: {json.dumps(one['type'])}" if one["type"] else ""
        lines.append(
            f"  {json.dumps(one['method'] + ' ' + one['path'])}: {{ statuses: {one['statuses']}{body_type} }},"
        )
    lines += ["};", "", "export const OBJECTS: Record<string, Record<string, string>> = {"]
    lines += [f"  {name}: {json.dumps(shape)}," for name, shape in objects.items()]
    (output / "responses.gen.ts").write_text("\n".join([*lines, "};", ""]))


# ----------------------------------------------------------------------------------------------------- for the unit tests


def samples(description):
    """Returns each operation with a current server's response and a possible response of a newer server."""
    responses, _ = Table(description).used()
    schemas = description["components"]["schemas"]
    operations = {}
    for path, item in description["paths"].items():
        for method, operation in item.items():
            parameters = operation.get("parameters", [])
            names = [one["name"] for one in parameters if one["in"] == "path"]
            found = {"method": method.upper(), "path": path, "path_parameters": names}
            found["is_list"] = any(one["name"] == "offset" for one in parameters)
            found |= {"statuses": responses[operation["operationId"]]["statuses"]}
            [answer, *_] = operation["responses"].values()
            if content := answer.get("content"):
                schema = content["application/json"]["schema"]
                found |= {name: sample(schema, schemas, name == "newer") for name in ("today", "newer")}
                found["required"] = sorted(fields(resolve(schema, schemas), schemas)[1])
            operations[operation["operationId"]] = found
    return operations


def resolve(schema, schemas):
    return schemas[schema["$ref"].removeprefix(SCHEMA)] if "$ref" in schema else schema


def sample(schema, schemas, newer):
    """Returns a value with all fields. A newer server's value has additional fields and enumeration values."""
    schema = resolve(schema, schemas)
    if "oneOf" in schema:
        [first, *others] = [one for one in schema["oneOf"] if one != {"type": "null"}]
        return {"type": "later", "later": True} if newer and others else sample(first, schemas, newer)
    properties, _ = fields(schema, schemas)
    if properties:
        values = {name: sample(part, schemas, newer) for name, part in properties.items()}
        if "has_more" in values:
            values["has_more"] = False
        return values | ({"later": {"more": [1]}} if newer else {})
    kinds = schema.get("type")
    kind = kinds if isinstance(kinds, str) or kinds is None else kinds[0]
    if kind == "array":
        return [sample(schema["items"], schemas, newer)]
    if kind == "object":
        values = schema.get("additionalProperties")
        return {"key": sample(values, schemas, newer)} if isinstance(values, dict) else {}
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return "later" if newer else schema["enum"][0]
    return SAMPLES.get(FORMATS.get(schema.get("format"), kind))
