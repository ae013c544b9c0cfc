"""The description's types and operations, as the SDKs for Python and Go write them."""

import json

import responses
from description import SCHEMA, argument_name, event_names, has_added_query, is_extension


class Table(responses.Table):
    """The table of types, with the names of enumerations, constants, and the alternatives of unions.

    A constant is written as `="s3"`. The first alternative of a union that fits is the correct one.
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
        """Returns the names of the objects in some types and in their fields."""
        found, waiting = [], list(types)
        while waiting:
            for name in responses.parts(waiting.pop()):
                if name in self.objects and name not in found:
                    found.append(name)
                    waiting += self.objects[name].values()
        return sorted(found)


class Shapes:
    """The description, sorted into requests and responses."""

    def __init__(self, description):
        self.schemas = description["components"]["schemas"]
        self.table = Table(description)
        self.operations = [
            Operation(self.table, path, operation)
            for path, item in description["paths"].items()
            for operation in item.values()
        ]
        self.events = event_names(description)
        answers = [one["type"] for one in self.table.responses.values()]
        answers += [self.table.type_of_name(name) for name in self.events.values()]
        self.received = self.table.named(answers)
        # A newer server may have further alternatives.
        for fields in map(self.table.objects.__getitem__, self.received):
            for name, kind in fields.items():
                if len(set(responses.parts(kind)) & self.table.objects.keys()) > 1:
                    fields[name] = f"{kind}|object"
        self.sent = self.table.named(field.kind for one in self.operations for field in one.all_body_fields())

    def properties(self, name):
        return responses.fields(self.schemas[name], self.schemas)[0]

    def fields_of(self, name):
        """Returns an object's fields, the required ones first, in the description's order."""
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


class Operation:
    """An operation: its parameters, and the fields of its body, or of each alternative body."""

    def __init__(self, table, path, operation):
        self.name, self.summary = operation["operationId"], operation["summary"]
        self.is_extension = is_extension(path)
        parameters = operation.get("parameters", [])
        self.path_arguments = [argument_name(path, one["name"]) for one in parameters if one["in"] == "path"]
        self.query = [
            Field(table, one["name"], one["schema"], False, one["schema"].get("default"))
            for one in parameters
            if one["in"] == "query"
        ]
        for field in self.query:
            if field.schema.get("format") in responses.FORMATS:
                # Its type is sufficient.
                field.description = ""
        self.has_added_query = has_added_query(path, operation)
        self.takes_key = any(one["name"] == "Idempotency-Key" for one in parameters)
        self.body, self.bodies = None, []
        if body := operation.get("requestBody"):
            schema = body["content"]["application/json"]["schema"]
            self.body = schema["$ref"].removeprefix(SCHEMA)
            schema = responses.resolve(schema, table.schemas)
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
        """Returns the body's fields. A field that differs between bodies has the types of each."""
        found = {}
        for field in self.all_body_fields():
            if field.name in found and found[field.name].kind != field.kind:
                found[field.name] = found[field.name].with_kind(f"{found[field.name].kind}|{field.kind}")
            else:
                found.setdefault(field.name, field)
        return list(found.values())


class Field:
    """A query parameter, or a field of a body."""

    def __init__(self, table, name, schema, required, default=None):
        self.name, self.required, self.default = name, required, default
        self.schema, self.kind = schema, table.type_of(schema)
        self.description = description_of_part(schema, table.schemas)

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
            # Its type is sufficient.
            return ""
    for one in schema.get("oneOf", []):
        if one != {"type": "null"} and "description" not in schema:
            return description_of_part(one, schemas)
    return schema.get("description", "")
