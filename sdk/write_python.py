"""Writes the generated part of the SDK for Python: types, calls, and the table by which responses are decoded.

The types are dataclasses for what the server sends, and typed dictionaries for what a caller sends within a body. The fields of a
body itself are the keyword arguments of a call.
"""

import json
import keyword
import textwrap

import responses
import tools
from description import EVENTS, SCHEMA, TEST_EVENT, argument_name, is_secret, schema_name
from tools import run

# Names that are those of the description in another language or another place.
NAMES = {"ShownRtmpDestinationConfig": "RtmpDestination", "RtmpDestinationConfig": "RtmpDestinationInput"}
KINDS = {
    "string": "str",
    "base64": "bytes | str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "any": "Any",
    "timestamp": "datetime.datetime",
    "date": "datetime.date",
}
OPTIONS = {"idempotency_key": "str | None", "timeout": "float | None"}
WIDTH = 100
NOT_BY_HAND = "Made by `sdk/generate` from the description of the API. Not edited by hand."


class Table(responses.Table):
    """The table of types, with the names of enumerations, constants, and the alternatives of unions.

    A constant is written as `="s3"`. Of a union, the first alternative that fits is the right one.
    """

    def __init__(self, description):
        self.enums = {}
        super().__init__(description)

    def type_of(self, schema):
        if "const" in schema:
            return "=" + json.dumps(schema["const"])
        if schema.get("contentEncoding") == "base64":
            return "base64"
        if "oneOf" in schema:
            return "|".join(self.type_of(one) for one in schema["oneOf"])
        return super().type_of(schema)

    def type_of_name(self, name):
        if "enum" in self.schemas[name]:
            self.enums[name] = self.schemas[name]["enum"]
            return name
        return super().type_of_name(name)

    def named(self, types):
        """Returns the names of the objects in some types, and in their fields."""
        found, waiting = [], list(types)
        while waiting:
            for name in responses.parts(waiting.pop()):
                if name in self.objects and name not in found:
                    found.append(name)
                    waiting += self.objects[name].values()
        return sorted(found)


class Writer:
    """The description, sorted into what is sent and what is received."""

    def __init__(self, description):
        self.schemas = description["components"]["schemas"]
        self.table = Table(description)
        self.operations = [
            Operation(self.table, path, operation)
            for path, item in description["paths"].items()
            for operation in item.values()
        ]
        self.events = {name: schema_name(name) for name in (*EVENTS, TEST_EVENT)}
        answers = [one["type"] for one in self.table.responses.values()]
        answers += [self.table.type_of_name(name) for name in self.events.values()]
        self.received = self.table.named(answers)
        # A newer server may have a further alternative.
        for fields in map(self.table.objects.__getitem__, self.received):
            for name, kind in fields.items():
                if len(set(responses.parts(kind)) & self.table.objects.keys()) > 1:
                    fields[name] = f"{kind}|object"
        self.sent = self.table.named(field.kind for one in self.operations for field in one.all_body_fields())
        self.as_read = {name: self.counterpart(name) for name in self.sent}

    def counterpart(self, sent):
        """Returns the type that is received and can be sent in place of another, if there is one."""
        mine = {name.removesuffix("?") for name in self.table.objects[sent]}
        for name in self.received:
            if mine == {field.removesuffix("?") for field in self.table.objects[name]} and (
                name == sent or not any(is_secret(field, part) for field, part in self.properties(sent).items())
            ):
                return name
        return None

    def properties(self, name):
        return responses.fields(self.schemas[name], self.schemas)[0]

    def annotation(self, kind, sent=False):
        """Returns the type annotation of a type of the table, as it is received or sent."""
        constants = [one[1:] for one in kind.split("|") if one.startswith("=")]
        parts = [f"Literal[{', '.join(constants)}]"] if constants else []
        for one in kind.split("|"):
            parts += [] if one.startswith("=") else self.annotations_of_one(one, sent)
        return " | ".join(dict.fromkeys(parts))

    def annotations_of_one(self, kind, sent):
        if kind.endswith("[]"):
            return [f"{'Sequence' if sent else 'list'}[{self.annotation(kind[:-2], sent)}]"]
        if kind.endswith("{}") or kind == "object":
            values = self.annotation(kind[:-2], sent) if kind.endswith("{}") else "Any"
            return [f"{'Mapping' if sent else 'dict'}[str, {values}]"]
        if kind not in self.table.objects:
            return [KINDS.get(kind, kind)]
        if not sent:
            return [received_name(kind)]
        read = self.as_read[kind]
        return [self.sent_name(kind), *([received_name(read)] if read else [])]

    def sent_name(self, name):
        return NAMES.get(name) or (name + "Input" if name in self.received else name)

    # ------------------------------------------------------------------------------------------------------------ types

    def models(self):
        lines = [f'"""The types of the API and of its events.\n\n{NOT_BY_HAND}\n"""', "from __future__ import annotations"]
        lines += ["import datetime", "from collections.abc import Mapping, Sequence", "from dataclasses import dataclass, field"]
        lines += ["from typing import Any, Literal, NotRequired, TypeAlias, TypedDict", "from .._model import SECRET, Model"]
        # Callers get the link itself.
        received = [received_name(name) for name in self.received if name != "RecordingLink"]
        names = [*self.table.enums, *received, *map(self.sent_name, self.sent), "Event"]
        lines.append(f"__all__ = {sorted(names)!r}")
        for name, words in sorted(self.table.enums.items()):
            lines.append(f"{name}: TypeAlias = Literal[{', '.join(map(json.dumps, words))}]")
            lines += text_of(self.schemas[name].get("description", ""))
        for name in self.received:
            lines += self.received_type(name)
        for name in self.sent:
            lines += self.sent_type(name)
        lines.append(f"Event: TypeAlias = {' | '.join(self.events.values())}")
        lines += text_of("What a webhook reports: one of the 20 events, or the event that tests an endpoint.")
        return lines

    def received_type(self, name):
        lines = ["@dataclass(frozen=True, kw_only=True, slots=True, repr=False)", f"class {received_name(name)}(Model):"]
        lines += indented(text_of(self.description_of(name)))
        for field, kind, part in self.fields_of(name):
            annotation = self.annotation(kind)
            secret = "SECRET" if is_secret(field.removesuffix("?"), part) else ""
            if "default" in part and part["default"] is not None:
                value = f" = {part['default']!r}"
            elif field.endswith("?"):
                if annotation != "Any" and "None" not in annotation.split(" | "):
                    annotation += " | None"
                value = " = field(default=None, metadata=SECRET)" if secret else " = None"
            elif kind.startswith("="):
                value = f" = {kind[1:]}"
            else:
                value = " = field(metadata=SECRET)" if secret else ""
            lines.append(f"    {field.removesuffix('?')}: {annotation}{value}")
            lines += indented(text_of(self.description_of_part(part)))
        return lines

    def sent_type(self, name):
        lines = [f"class {self.sent_name(name)}(TypedDict):", *indented(text_of(self.description_of(name)))]
        for field, kind, part in self.fields_of(name):
            annotation = self.annotation(kind, sent=True)
            if field.endswith("?"):
                annotation = f"NotRequired[{annotation}]"
            lines.append(f"    {field.removesuffix('?')}: {annotation}")
            lines += indented(text_of(self.description_of_part(part)))
        return lines

    def fields_of(self, name):
        """Returns the fields of an object, the required ones first, in the order in which the description requires them."""
        if name not in self.schemas:
            return [(field, kind, {}) for field, kind in self.table.objects[name].items()]
        properties = self.properties(name)
        kinds = self.table.objects[name]
        order = [field for field in required_in_order(self.schemas[name], self.schemas) if field in properties]
        order += [field for field in properties if field not in order]
        found = []
        for field in order:
            key = field if field in kinds else f"{field}?"
            found.append((key, kinds[key], properties[field]))
        return found

    def description_of(self, name):
        return self.schemas.get(name, {}).get("description", "")

    def description_of_part(self, part):
        return description_of_part(part, self.schemas)

    # ------------------------------------------------------------------------------------------------------------ calls

    def calls(self):
        lines = [f'"""A method for each operation of the API.\n\n{NOT_BY_HAND}\n"""', "from __future__ import annotations"]
        lines += ["import datetime", "from collections.abc import AsyncIterator, Iterator, Mapping, Sequence"]
        lines += ["from typing import Any, Literal, overload", "from .._sender import AsyncSender, Sender"]
        lines.append("from .models import *")
        for prefix in ("", "Async"):
            lines += [f"class {prefix}Calls({prefix}Sender):", f'    """The calls of `{prefix}Conclave`.', ""]
            lines += ["    Each takes `timeout`, in seconds, in place of the client's. `idempotency_key` takes the place of the key"]
            lines += ["    that is made for each call: a repeated key returns the first response again, for 24 hours.", '    """']
            for operation in self.operations:
                lines += indented(self.call(operation, bool(prefix)))
                if operation.items:
                    lines += indented(self.iterator(operation, bool(prefix)))
        return lines

    def call(self, operation, is_async):
        define, wait = ("async def", "await ") if is_async else ("def", "")
        kind = self.table.responses[operation.name]["type"]
        returns = self.annotation(kind) if kind else "None"
        lines = []
        for fields in operation.bodies if len(operation.bodies) > 1 else []:
            lines += ["@overload", f"{define} {operation.name}({self.parameters(operation, fields)}) -> {returns}: ..."]
        fields = operation.body_fields()
        lines.append(f"{define} {operation.name}({self.parameters(operation, fields)}) -> {returns}:")
        lines += indented(self.documentation(operation, fields))
        lines.append(f"    {'return ' if kind else ''}{wait}self._send({operation.name!r}, {self.arguments(operation, fields)})")
        return lines

    def iterator(self, operation, is_async):
        name, item = operation.name.replace("list_", "all_", 1), self.annotation(operation.item)
        iterator = f"{'AsyncIterator' if is_async else 'Iterator'}[{item}]"
        note = "Yields the items of all pages, from `offset` on; `limit` is the size of a page."
        lines = [f"def {name}({self.parameters(operation, [])}) -> {iterator}:"]
        lines += indented(self.documentation(operation, [], note))
        sent = self.arguments(operation, [])
        return [*lines, f"    return self._all({operation.name!r}, {operation.items!r}, {sent})"]

    def parameters(self, operation, fields):
        """Returns the parameters of a method, which are those of the path, then by keyword those of the query and of the body."""
        named = [*sorted(fields, key=lambda field: not field.required), *operation.query]
        options = {option: kind for option, kind in OPTIONS.items() if option != "idempotency_key" or operation.takes_key}
        taken = [*operation.path_arguments, *(field.argument for field in named), *options]
        if len(set(taken)) < len(taken):
            raise ValueError(f"{operation.name} has two parameters of one name: {taken}")
        texts = ["self", *(f"{argument}: str" for argument in operation.path_arguments), "*"]
        for field in named:
            annotation = self.annotation(field.kind, sent=True)
            if field.default is not None:
                annotation += f" = {field.default!r}"
            elif not field.required:
                annotation += " = None" if "None" in annotation.split(" | ") else " | None = None"
            texts.append(f"{field.argument}: {annotation}")
        texts += [f"{option}: {kind} = None" for option, kind in options.items()]
        return ", ".join(texts) + ","

    def arguments(self, operation, fields):
        texts = [f"[{', '.join(operation.path_arguments)}]"]
        for key, given in (("query", operation.query), ("body", fields)):
            if given or (key == "body" and operation.bodies):
                pairs = ", ".join(f"{json.dumps(field.name)}: {field.argument}" for field in given)
                texts.append(f"{key}={{{pairs}}}")
        if operation.takes_key:
            texts.append("idempotency_key=idempotency_key")
        return ", ".join([*texts, "timeout=timeout"])

    def documentation(self, operation, fields, note=None):
        paragraphs = [f"{operation.summary}.", *([note] if note else [])]
        described = [(field.argument, field.description) for field in [*fields, *operation.query] if field.description]
        if described:
            paragraphs.append("Args:")
        text = "\n\n".join("\n".join(textwrap.wrap(one, WIDTH)) for one in paragraphs)
        for argument, description in described:
            words = textwrap.wrap(f"{argument}: {description}", WIDTH - 4, subsequent_indent="    ")
            text += "\n" + textwrap.indent("\n".join(words), "    ")
        return docstring(text)

    # ------------------------------------------------------------------------------------------------------------ table

    def decoding(self):
        lines = [f'"""The responses and their types, in the notation of `sdk/responses.py`.\n\n{NOT_BY_HAND}\n"""']
        lines += ["", "RESPONSES: dict[str, tuple[str, str, list[int], str | None]] = {"]
        for name, one in sorted(self.table.responses.items()):
            kind = self.at_runtime(one["type"]) if one["type"] else None
            lines.append(f"    {name!r}: {(one['method'], one['path'], one['statuses'], kind)!r},")
        lines += ["}", "", "OBJECTS: dict[str, dict[str, str]] = {"]
        for name in self.received:
            shape = {field: self.at_runtime(kind) for field, kind, _ in self.fields_of(name)}
            lines.append(f"    {received_name(name)!r}: {shape!r},")
        lines += ["}", "", "EVENTS: dict[str, str] = {"]
        lines += [f"    {event!r}: {name!r}," for event, name in self.events.items()]
        return [*lines, "}"]

    def at_runtime(self, kind):
        """Returns a type without the names of enumerations, since a newer server has further words."""
        parts = []
        for one in kind.split("|"):
            name = one.rstrip("[]{}")
            brackets = one.removeprefix(name)
            parts.append(("string" if name in self.table.enums else received_name(name)) + brackets)
        return "|".join(parts)


class Operation:
    """An operation: its parameters, and the fields of its body, or of each of the bodies that it can have."""

    def __init__(self, table, path, operation):
        self.name, self.summary = operation["operationId"], operation["summary"]
        parameters = operation.get("parameters", [])
        self.path_arguments = [argument_name(path, one["name"]) for one in parameters if one["in"] == "path"]
        self.query = [
            Field(table, one["name"], one["schema"], False, one["schema"].get("default"))
            for one in parameters
            if one["in"] == "query"
        ]
        self.takes_key = any(one["name"] == "Idempotency-Key" for one in parameters)
        self.bodies = []
        if body := operation.get("requestBody"):
            schema = responses.resolve(body["content"]["application/json"]["schema"], table.schemas)
            for one in schema.get("oneOf", [schema]):
                self.bodies.append(body_fields(table, responses.resolve(one, table.schemas)))
        self.item = self.items = None
        if any(field.name == "offset" for field in self.query):
            page = table.objects[table.responses[self.name]["type"]]
            [(self.items, kind)] = [(name, kind) for name, kind in page.items() if kind.endswith("[]")]
            self.item = kind.removesuffix("[]")

    def all_body_fields(self):
        return [field for fields in self.bodies for field in fields]

    def body_fields(self):
        """Returns the fields of the body. One that is not the same in all bodies has the types of each."""
        found = {}
        for field in self.all_body_fields():
            if field.name in found and found[field.name].kind != field.kind:
                found[field.name] = found[field.name].with_kind(f"{found[field.name].kind}|{field.kind}")
            else:
                found.setdefault(field.name, field)
        return list(found.values())


class Field:
    """A keyword argument."""

    def __init__(self, table, name, schema, required, default=None):
        self.name, self.required, self.default = name, required, default
        self.kind = table.type_of(schema)
        self.description = description_of_part(schema, table.schemas)
        self.argument = f"{name}_" if keyword.iskeyword(name) else name

    def with_kind(self, kind):
        field = Field.__new__(Field)
        field.__dict__ = self.__dict__ | {"kind": kind, "description": ""}
        return field


def body_fields(table, schema):
    properties, required = responses.fields(schema, table.schemas)
    order = [*required_in_order(schema, table.schemas), *(name for name in properties if name not in required)]
    return [Field(table, name, properties[name], name in required) for name in order]


def required_in_order(schema, schemas):
    found = []
    for part in schema.get("allOf", []):
        found += required_in_order(responses.resolve(part, schemas), schemas)
    return found + schema.get("required", [])


def description_of_part(schema, schemas):
    if "$ref" in schema and "description" not in schema:
        schema = schemas[schema["$ref"].removeprefix(SCHEMA)]
        if "const" in schema or "format" in schema:
            # Its type says the same.
            return ""
    for one in schema.get("oneOf", []):
        if one != {"type": "null"} and "description" not in schema:
            return description_of_part(one, schemas)
    return schema.get("description", "")


def received_name(name):
    return NAMES.get(name, name)


def text_of(description):
    return docstring("\n".join(textwrap.wrap(description, WIDTH))) if description else []


def docstring(text):
    lines = text.replace("\\", "\\\\").split("\n")
    return [f'"""{lines[0]}', *lines[1:], '"""'] if len(lines) > 1 else [f'"""{lines[0]}"""']


def indented(lines):
    return [f"    {line}" if line else line for line in lines]


def write(description, output):
    """Writes the modules into a folder, which has nothing else."""
    for old in output.glob("*.py"):
        old.unlink()
    output.mkdir(parents=True, exist_ok=True)
    writer = Writer(description)
    parts = {"models": writer.models(), "calls": writer.calls(), "table": writer.decoding()}
    parts["__init__"] = [f'"""The types and the calls of the API.\n\n{NOT_BY_HAND}\n"""']
    for name, lines in parts.items():
        (output / f"{name}.py").write_text("\n".join([*lines, ""]))
    environment = tools.python_tools()
    # As in every folder that it is generated into: without the settings of a package around it.
    settings = ["--isolated", "--no-cache", "--target-version", "py311", "--quiet"]
    run(["ruff", "check", *settings, "--fix-only", "--select", "F401,I", output], env=environment)
    run(["ruff", "format", *settings, "--line-length", "120", output], env=environment)
