"""Writes the generated part of the Python SDK: types, calls, and the table for decoding responses.

The types are dataclasses for responses, and typed dictionaries for values within a request body. The body's own fields are keyword
arguments of the call.
"""

import json
import keyword
import textwrap

import tools
from description import is_secret
from shapes import Shapes
from tools import run

# Names that differ from the description, because of the language or the context.
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
MODELS = f'''"""The types of the API and of its events.

{NOT_BY_HAND}
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from .._model import SECRET, Model
'''
CALLS = f'''"""A method for each operation of the API.

{NOT_BY_HAND}
"""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

from .._sender import AsyncExtension, AsyncSender, Extension, Sender
from .models import *
'''


class Writer(Shapes):
    """The package's modules."""

    def __init__(self, description):
        super().__init__(description)
        self.as_read = {name: self.counterpart(name) for name in self.sent}

    def counterpart(self, sent):
        """Returns the received type that can be sent in place of another, if any."""
        mine = {name.removesuffix("?") for name in self.table.objects[sent]}
        for name in self.received:
            if mine == {field.removesuffix("?") for field in self.table.objects[name]} and (
                name == sent or not any(is_secret(field, part) for field, part in self.properties(sent).items())
            ):
                return name
        return None

    def annotation(self, kind, sent=False):
        """Returns the annotation for a type of the table, as received or sent."""
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
        lines = [MODELS]
        # Callers receive the link itself.
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
        lines += text_of(self.description_of("Event"))
        return lines

    def received_type(self, name):
        lines = [
            "@dataclass(frozen=True, kw_only=True, slots=True, repr=False)",
            f"class {received_name(name)}(Model):",
        ]
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

    # ------------------------------------------------------------------------------------------------------------ calls

    def calls(self):
        lines = [CALLS]
        for prefix in ("", "Async"):
            lines += [f"class {prefix}Calls({prefix}Sender):", f'    """The calls of `{prefix}Conclave`.', ""]
            lines += self.notes_on_calls()
            lines += self.methods_of(bool(prefix), is_extension=False)
            lines += [f"class {prefix}ExtCalls({prefix}Extension):"]
            lines += [f'    """The calls of `{prefix}Conclave.ext`: those below `/ext/v1`, beyond the contract.', ""]
            lines += self.notes_on_calls()
            lines += self.methods_of(bool(prefix), is_extension=True)
        return lines

    @staticmethod
    def notes_on_calls():
        return [
            "    Each takes `timeout`, in seconds, in place of the client's. `idempotency_key` takes the place of the key",
            "    that is made for each call: a repeated key returns the first response again, for 24 hours.",
            '    """',
        ]

    def methods_of(self, is_async, is_extension):
        lines = []
        for operation in self.operations:
            if operation.is_extension == is_extension:
                lines += indented(self.call(operation, is_async))
                lines += indented(self.iterator(operation, is_async)) if operation.items else []
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
        lines.append(
            f"    {'return ' if kind else ''}{wait}self._send({operation.name!r}, {self.arguments(operation, fields)})"
        )
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
        """Returns a method's parameters: the path's, then by keyword the query's and the body's."""
        named = [*sorted(fields, key=lambda field: not field.required), *operation.query]
        options = {
            option: kind for option, kind in OPTIONS.items() if option != "idempotency_key" or operation.takes_key
        }
        taken = [*operation.path_arguments, *(argument_of(field) for field in named), *options]
        if len(set(taken)) < len(taken):
            raise ValueError(f"{operation.name} has two parameters of one name: {taken}")
        texts = ["self", *(f"{argument}: str" for argument in operation.path_arguments), "*"]
        for field in named:
            annotation = self.annotation(field.kind, sent=True)
            if field.default is not None:
                annotation += f" = {field.default!r}"
            elif not field.required:
                annotation += " = None" if "None" in annotation.split(" | ") else " | None = None"
            texts.append(f"{argument_of(field)}: {annotation}")
        texts += [f"{option}: {kind} = None" for option, kind in options.items()]
        return ", ".join(texts) + ","

    def arguments(self, operation, fields):
        texts = [f"[{', '.join(operation.path_arguments)}]"]
        for key, given in (("query", operation.query), ("body", fields)):
            if given or (key == "body" and operation.bodies):
                pairs = ", ".join(f"{json.dumps(field.name)}: {argument_of(field)}" for field in given)
                texts.append(f"{key}={{{pairs}}}")
        if operation.takes_key:
            texts.append("idempotency_key=idempotency_key")
        return ", ".join([*texts, "timeout=timeout"])

    def documentation(self, operation, fields, note=None):
        paragraphs = [f"{operation.summary}.", *([note] if note else [])]
        described = [
            (argument_of(field), field.description) for field in [*fields, *operation.query] if field.description
        ]
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
        """Returns a type without the names of enumerations, since newer servers have additional values."""
        parts = []
        for one in kind.split("|"):
            name = one.rstrip("[]{}")
            brackets = one.removeprefix(name)
            parts.append(("string" if name in self.table.enums else received_name(name)) + brackets)
        return "|".join(parts)


def argument_of(field):
    return f"{field.name}_" if keyword.iskeyword(field.name) else field.name


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
    """Writes the modules into a folder, which is emptied first."""
    for old in output.glob("*.py"):
        old.unlink()
    output.mkdir(parents=True, exist_ok=True)
    writer = Writer(description)
    parts = {"models": writer.models(), "calls": writer.calls(), "table": writer.decoding()}
    parts["__init__"] = [f'"""The types and the calls of the API.\n\n{NOT_BY_HAND}\n"""']
    for name, lines in parts.items():
        (output / f"{name}.py").write_text("\n".join([*lines, ""]))
    environment = tools.python_tools()
    # The result is the same in every folder: no settings of a surrounding package.
    settings = ["--isolated", "--no-cache", "--target-version", "py311", "--quiet"]
    run(["ruff", "check", *settings, "--fix-only", "--select", "F401,I", output], env=environment)
    run(["ruff", "format", *settings, "--line-length", "120", output], env=environment)
