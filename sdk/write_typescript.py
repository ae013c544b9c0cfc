"""Writes the generated part of the TypeScript SDK: types, calls, and the table for checking responses.

TypeScript generators wrap parameters in `path` and `body`, and add an HTTP client whose types appear in every call. Here each operation
is a method with positional parameters: the path's, then the body, the query, and the call's options.

Only objects, unions and enumerations become types. A named alias for a text or a number would hide its type, so such a schema is written
as `string` or `number`, and its description is copied to fields without one.
"""

import json
import re
import shutil

import responses
from description import SCHEMA, argument_name, event_names, has_added_query, is_extension

HEAD = "// Written by sdk/generate from the description of the API.\n"
# A newer server may send other values; an editor still completes the known ones.
OPEN = "(string & {})"
PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
# Not repeated for each method: almost every call can fail with these codes.
COMMON_CODES = {"invalid_request", "payload_too_large", "unauthorized", "rate_limited", "internal_error"}
CLASS = """\
A project, by the URL of its server and one of its API keys. Has a method for each operation of the API, and for each list an
iterator over the items of all its pages, from `offset` on; `limit` is the size of a page. Each call throws `ConclaveError`."""
EXTENSIONS = "The `ext` of `Conclave`: a method for each operation below `/ext/v1`, beyond the contract."


def write(description, original, output):
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    responses.write_typescript(description, output)
    (output / "events.gen.ts").write_text(events(description))
    description = prepare(description, original)
    types = Types(description["components"]["schemas"])
    operations = [
        Operation(types, method.upper(), path, operation)
        for path, item in description["paths"].items()
        for method, operation in item.items()
    ]
    operations.sort(key=lambda operation: operation.name)
    (output / "types.gen.ts").write_text("\n".join([HEAD, *types.declarations(operations)]))
    (output / "conclave.gen.ts").write_text(conclave(operations))


def pascal(name):
    return "".join(part[:1].upper() + part[1:] for part in re.split("[_-]", name))


def camel(name):
    return name[:1] + pascal(name)[1:]


def comment(lines, indent=""):
    """Returns a documentation comment, or an empty text without lines."""
    lines = [line.replace("*/", "*\\/") for part in lines for line in part.split("\n")]
    if not any(lines):
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines) + f"{indent} */\n"


def sentence(text):
    return text if not text or text.endswith(".") else text + "."


# ------------------------------------------------------------------------------------------------------------ description

# Names that also exist in the DOM, so that a missing import would go unnoticed, and ambiguous names.
NAMES = {
    "Event": "WebhookEvent",
    "EventType": "WebhookEventType",
    "Permissions": "TokenPermissions",
    "InputType": "IngressInputType",
    "AudioInput": "AudioProfileInput",
    "VideoInput": "VideoProfileInput",
    # Configurations, in contrast to `Destination`.
    "AzureDestination": "AzureDestinationConfig",
    "GcpDestination": "GcpDestinationConfig",
    "S3Destination": "S3DestinationConfig",
    "NewAzureDestination": "NewAzureDestinationConfig",
    "NewGcpDestination": "NewGcpDestinationConfig",
    "NewS3Destination": "NewS3DestinationConfig",
}
# The configuration of each destination kind. Without secrets it has the same fields, so one type serves for both.
DESTINATIONS = {"recording": "RecordingDestinationConfig", "rtmp": "RtmpDestinationConfig"}


def prepare(description, original):
    """Returns the description with tagged unions, with error codes, and with NAMES.

    The error codes and the unions' conditions come from the original description.
    """
    schemas = dict(description["components"]["schemas"])
    whole = schemas["Destination"]
    for kind, config in DESTINATIONS.items():
        config = whole["properties"]["config"] | {"$ref": SCHEMA + config}
        member = whole["properties"] | {"kind": {"const": kind}, "config": config}
        schemas[alternative("Destination", kind)] = whole | {"properties": member}
    members = [{"$ref": SCHEMA + alternative("Destination", kind)} for kind in DESTINATIONS]
    schemas["Destination"] = {"description": whole["description"], "oneOf": members}
    for name, schema in original["components"]["schemas"].items():
        schemas |= tagged_union(name, schemas.get(name), schema.get("oneOf", []))
    error = original["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"]
    schemas["ApiErrorCode"] = {
        "type": "string",
        "description": "The code of an error of the API.",
        "enum": error["examples"],
    }
    if unknown := NAMES.keys() - schemas.keys():
        raise ValueError(f"no such schemas to rename: {unknown}")
    paths = {path: with_codes(item, original["paths"][path]) for path, item in description["paths"].items()}
    return renamed(description | {"paths": paths, "components": {"schemas": schemas}}, NAMES)


def with_codes(item, original):
    """Returns a path's operations with their error codes."""
    answers = {method: operation["responses"].values() for method, operation in original.items()}
    codes = {method: [code for one in all_ for code in codes_of(one)] for method, all_ in answers.items()}
    return {method: operation | {"x-error-codes": codes[method]} for method, operation in item.items()}


def codes_of(response):
    """Returns a response's error codes: the contract's, and those beyond it."""
    return response.get("x-error-codes", []) + response.get("x-extension-codes", {}).get("codes", [])


def alternative(name, word):
    """Returns an alternative's name: the word is inserted before the last word of the name (`StartTrackRecording`)."""
    *first, last = re.findall(r"[A-Z][a-z0-9]*", name)
    return "".join([*first, *(part.title() for part in word.split("_")), last])


def tagged_union(name, schema, conditions):
    """Returns an object as a union, if its conditions depend on one field's constant; otherwise None."""
    union = {}
    for condition in conditions:
        fields = condition.get("properties", {})
        if not (tag := next((field for field, part in fields.items() if part and "const" in part), None)):
            return {}
        properties = {field: part for field, part in schema["properties"].items() if fields.get(field) is not False}
        union[alternative(name, fields[tag]["const"])] = schema | {
            "properties": properties | {tag: {"const": fields[tag]["const"]}},
            "required": schema["required"] + condition.get("required", []),
        }
    members = [{"$ref": SCHEMA + member} for member in union]
    return union | {name: {"description": schema["description"], "oneOf": members}} if union else {}


def renamed(node, names):
    """Returns a part of the description with renamed schemas."""
    if isinstance(node, list):
        return [renamed(item, names) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: renamed(value, names) for key, value in node.items()}
    if reference := node.get("$ref"):
        name = reference.removeprefix(SCHEMA)
        node["$ref"] = SCHEMA + names.get(name, name)
    if "schemas" in node:
        node["schemas"] = {names.get(name, name): schema for name, schema in node["schemas"].items()}
    return node


# ------------------------------------------------------------------------------------------------------------------- types


class Types:
    def __init__(self, schemas):
        self.schemas = schemas

    def is_named(self, name):
        return any(key in self.schemas[name] for key in ("properties", "enum", "oneOf", "allOf"))

    def declarations(self, operations):
        """Returns the declarations of all types that callers use."""
        sent, used = set(), set()
        for operation in operations:
            self.reach(operation.body, sent)
            self.reach([operation.query, operation.body, operation.result], used)
        self.reach([{"$ref": SCHEMA + name} for name in ("WebhookEvent", "ApiErrorCode")], used)
        queries = [self.query(operation) for operation in operations if operation.query]
        return [self.declaration(name, name in sent) for name in sorted(used)] + queries

    def reach(self, node, found):
        """Adds the names of all types that a part of the description refers to. Parts of an `allOf` are merged, and are not types."""
        if isinstance(node, list):
            for item in node:
                self.reach(item, found)
        elif isinstance(node, dict):
            name = node.get("$ref", "").removeprefix(SCHEMA)
            if name and name not in found:
                if self.is_named(name):
                    found.add(name)
                self.reach(self.schemas[name], found)
            parts = [self.fields(node)[0]] if "allOf" in node else list(node.values())
            self.reach(parts, found)

    def declaration(self, name, is_sent):
        schema = self.schemas[name]
        text = comment([sentence(schema.get("description", ""))])
        properties, required = self.fields(schema)
        if properties:
            return text + self.interface(name, properties, required, is_sent)
        # Readable in the editor too, which shows a declaration on a click.
        union = self.expression(schema).replace(" | ", "\n  | ")
        return f"{text}export type {name} =\n  | {union};\n"

    def query(self, operation):
        properties = {one["name"]: one["schema"] | {"description": one["description"]} for one in operation.query}
        text = comment([f"The query of `{operation.name}`."])
        return text + self.interface(operation.query_type, properties, set(), is_sent=True)

    def interface(self, name, properties, required, is_sent):
        lines = [f"export interface {name} {{\n"]
        for field, schema in properties.items():
            kind = self.expression(schema)
            # Under `exactOptionalPropertyTypes`, a request could not be built from optional values.
            kind += " | undefined" if is_sent and field not in required and kind != "unknown" else ""
            lines.append(comment(self.field_text(schema), "  "))
            lines.append(f"  {field}{'' if field in required else '?'}: {kind};\n")
        return "".join([*lines, "}\n"])

    def fields(self, schema):
        """Returns an object's properties and the names of the required ones, including those inherited by `allOf`."""
        properties, required = dict(schema.get("properties", {})), set(schema.get("required", []))
        for part in schema.get("allOf", []):
            further, also_required = self.fields(self.resolve(part))
            properties |= further
            required |= also_required
        return properties, required

    def resolve(self, schema):
        return self.schemas[schema["$ref"].removeprefix(SCHEMA)] if "$ref" in schema else schema

    def field_text(self, schema):
        whole = self.resolve(schema)
        own, general = schema.get("description", ""), whole.get("description", "")
        # The type `string` does not show that it is a time.
        texts = [own, general] if own and whole.get("format") and own != general else [own or general]
        lines = [" ".join(sentence(text) for text in texts if text)]
        return [*lines, f"@default {json.dumps(schema['default'])}"] if "default" in schema else lines

    def expression(self, schema):
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(SCHEMA)
            return name if self.is_named(name) else self.expression(self.schemas[name])
        if "const" in schema:
            return json.dumps(schema["const"])
        if "enum" in schema:
            return " | ".join([*map(json.dumps, schema["enum"]), OPEN])
        if "oneOf" in schema:
            return " | ".join(map(self.expression, schema["oneOf"]))
        kinds = schema.get("type", [])
        if not kinds and schema.keys() - {"description"}:
            raise ValueError(f"a schema of a kind that the SDK has not had: {schema}")
        texts = [self.of_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        return " | ".join(texts) or "unknown"

    def of_kind(self, kind, schema):
        if kind == "array":
            item = self.expression(schema["items"])
            return f"({item})[]" if " " in item else f"{item}[]"
        if kind == "object":
            values = schema.get("additionalProperties")
            return f"Record<string, {self.expression(values) if isinstance(values, dict) else 'unknown'}>"
        return PRIMITIVES[kind]


# ----------------------------------------------------------------------------------------------------------------- methods


class Operation:
    def __init__(self, types, method, path, operation):
        self.types, self.route, self.operation = types, f"{method} {path}", operation
        self.name = camel(operation["operationId"])
        self.is_extension = is_extension(path)
        self.owner = "Extensions" if self.is_extension else "Conclave"
        self.query_type = pascal(operation["operationId"]) + "Query"
        parameters = operation.get("parameters", [])
        self.path = [
            one | {"argument": camel(argument_name(path, one["name"]))} for one in parameters if one["in"] == "path"
        ]
        self.query = [one for one in parameters if one["in"] == "query"]
        self.has_added_query = has_added_query(path, operation)
        self.is_list = any(one["name"] == "offset" for one in self.query)
        request = operation.get("requestBody", {})
        self.body = self.schema(request)
        self.is_body_required = request.get("required", False)
        [self.result, *_] = map(self.schema, operation["responses"].values())

    @staticmethod
    def schema(content):
        return content.get("content", {}).get("application/json", {}).get("schema")

    def parameters(self):
        """Returns the method's parameters."""
        given = [f"{one['argument']}: string" for one in self.path]
        if self.body:
            given.append(f"body{'' if self.is_body_required else '?'}: {self.types.expression(self.body)}")
        query = [f"query?: {self.query_type}"] if self.query else []
        last = ["options?: CallOptions", *query] if self.has_added_query else [*query, "options?: CallOptions"]
        return ", ".join([*given, *last])

    def methods(self):
        return [self.method(), self.iterator()] if self.is_list else [self.method()]

    def method(self):
        returned = self.types.expression(self.result) if self.result else "void"
        path = ", ".join(
            one["name"] if one["name"] == one["argument"] else f"{one['name']}: {one['argument']}" for one in self.path
        )
        parts = [f"path: {{ {path} }}"] if path else []
        parts += ["body"] if self.body else []
        parts += ["query"] if self.query else []
        given = f"{{ {', '.join(parts)} }}" if parts else "{}"
        return (
            comment(self.text(), "  ")
            + f"  {self.name}({self.parameters()}): Promise<{returned}> {{\n"
            + f"    return this.call({json.dumps(self.route)}, {given}, options);\n  }}\n"
        )

    def item(self):
        """Returns the schema of a list's items."""
        [item] = [one["items"] for one in self.types.resolve(self.result)["properties"].values() if "items" in one]
        return item

    def named(self):
        """Returns the types in the methods' signatures."""
        schemas = [self.body, self.result, *([self.item()] if self.is_list else [])]
        return {self.types.expression(one) for one in schemas if one} | ({self.query_type} if self.query else set())

    def iterator(self):
        item = self.types.expression(self.item())
        text = [f"Iterate over the items of all pages of {{@link {self.owner}.{self.name}}}.", *self.documented()]
        given = "".join(f"{one['argument']}, " for one in self.path)
        name = self.name.replace("list", "all", 1)
        return (
            comment(text, "  ")
            + f"  {name}({self.parameters()}): AsyncGenerator<{item}, void, void> {{\n"
            + f"    return items(query, (page) => this.{self.name}({given}page, options));\n  }}\n"
        )

    def text(self):
        summary = [sentence(self.operation["summary"])]
        if description := self.operation.get("description"):
            summary += ["", description]
        codes = [code for code in self.operation["x-error-codes"] if code not in COMMON_CODES]
        thrown = ", ".join(f"`{code}`" for code in codes)
        return [*summary, *self.documented(), *([f"@throws {{ConclaveError}} {thrown}"] if thrown else [])]

    def documented(self):
        """Returns the parameters' documentation."""
        texts = [f"@param {one['argument']} {sentence(one['description'])}" for one in self.path]
        if self.body:
            texts.append(f"@param body {sentence(self.types.resolve(self.body)['description'])}")
        return ["", *texts] if texts else []


def events(description):
    """Returns the table of events."""
    schemas = description["components"]["schemas"]
    lines = [f'{HEAD}import type {{ WebhookEvent }} from "./types.gen.js";\n']
    lines += [comment(["Each event, and whether it is about a room."]).rstrip()]
    lines += ['export const EVENTS: Record<WebhookEvent["type"], boolean> = {']
    for name, schema in event_names(description).items():
        lines.append(f"  {json.dumps(name)}: {json.dumps('room' in schemas[schema]['required'])},")
    return "\n".join([*lines, "};", ""])


def conclave(operations):
    """Returns the classes with all methods."""
    methods, extensions = (
        [text for one in operations if one.is_extension == is_extension for text in one.methods()]
        for is_extension in (False, True)
    )
    imported = "".join(f"  {name},\n" for name in sorted(set().union(*(one.named() for one in operations))))
    return (
        f'{HEAD}\nimport {{ type CallOptions, ConclaveClient, Extension }} from "../client.js";\n'
        + 'import { items } from "../pages.js";\n'
        + f'import type {{\n{imported}}} from "./types.gen.js";\n\n'
        + comment([EXTENSIONS])
        + "export class Extensions extends Extension {\n"
        + "\n".join(extensions)
        + "}\n\n"
        + comment([CLASS])
        + "export class Conclave extends ConclaveClient {\n"
        + comment(["The operations below `/ext/v1`, beyond the contract."], "  ")
        + "  readonly ext = new Extensions((operation, parameters, options) => this.call(operation, parameters, options));\n\n"
        + "\n".join(methods)
        + "}\n"
    )
