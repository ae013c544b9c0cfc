"""Hooks for schemathesis in scripts/check openapi: a record of every failed check, exceptions, and protection of the created resources.

After a failure, schemathesis stops sending requests to an operation, and shows one failure per kind. Therefore every
failure is written to a file here and then dropped; the script evaluates that file.
"""

import json
import os
import re
import threading
import tomllib

import schemathesis

with open(os.environ["CHECK_OPENAPI_EXCEPTIONS"], "rb") as file:
    EXCEPTIONS = tomllib.load(file).get("exception", [])
KEEP = set(json.loads(os.environ["CHECK_OPENAPI_KEEP"]))
FINDINGS = open(os.environ["CHECK_OPENAPI_FINDINGS"], "a", encoding="utf-8")
WRITING = threading.Lock()
SHOWN = 160
# Operations that still return a resource after DELETE: an ingress endpoint is `deleted`, a room `ended`.
KEPT = {"get_ingress", "get_room"}


def error_of(response):
    """Returns the error in the response's envelope, or an empty error."""
    try:
        error = json.loads(response.content)["error"]
        return error if isinstance(error, dict) else {}
    except (ValueError, KeyError, TypeError):
        return {}


def fits(pattern, field):
    """Returns whether a field matches an exception's pattern; a * in it stands for a part that the request chose."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), field or "", re.DOTALL) is not None


def matching_exception(finding):
    """Returns the index of the exception for the finding."""
    for index, entry in enumerate(EXCEPTIONS):
        same = finding["operation"] == entry["operation"] and finding["check"] == "RejectedPositiveData"
        if same and fits(entry["field"], finding["field"]) and entry["says"] in finding["says"]:
            return index
    return None


def sent(case, field):
    """Returns the value sent for the field in the server's error, or the whole request."""
    if field is None:
        return case.as_curl_command()
    for part in (case.query, case.headers, case.path_parameters):
        if part and field in part:
            return json.dumps(part[field])
    value = case.body
    try:
        for step in re.findall(r"[^.\[\]]+", field):
            value = value[int(step)] if isinstance(value, list) else value[step]
        return json.dumps(value)
    except (KeyError, IndexError, TypeError, ValueError):
        return case.as_curl_command()


def answer(failure, error):
    """Returns the server's message for a rejected request, or the defect of its response, on one line."""
    if type(failure).__name__ == "RejectedPositiveData" and error.get("message"):
        return error["message"]
    return " ".join(f"{failure.title}: {failure.message}".split())


@schemathesis.hook
def filter_failure(context, failure, case, response):
    error = error_of(response)
    finding = {
        "operation": case.operation.definition.raw.get("operationId"),
        "check": type(failure).__name__,
        "status": response.status_code,
        "code": error.get("code"),
        "field": error.get("field"),
        "says": answer(failure, error)[: 2 * SHOWN],
        "sent": sent(case, error.get("field"))[:SHOWN],
        "request": case.as_curl_command(),
    }
    if finding["check"] == "UseAfterFree" and finding["operation"] in KEPT:
        return False
    finding["exception"] = matching_exception(finding)
    with WRITING:
        print(json.dumps(finding), file=FINDINGS, flush=True)
    return False


def without_fractions(value):
    """Returns the value with 5 for 5.0. Both are integers to JSON Schema, but only the first to the API."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: without_fractions(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_fractions(inner) for inner in value]
    return value


@schemathesis.hook
def map_body(context, body):
    return without_fractions(body)


def has_dot_identity(value):
    """Returns whether an identity is `.` or `..`, which its pattern allows and the server rejects, since URLs cannot contain it."""
    if isinstance(value, dict):
        named = [inner for name, inner in value.items() if "identit" in name]
        listed = [item for inner in named for item in (inner if isinstance(inner, list) else [inner])]
        return any(item in (".", "..") for item in listed) or any(map(has_dot_identity, value.values()))
    return False


@schemathesis.hook
def filter_case(context, case):
    """Prevents requests from deleting resources that others need, and from using rejected identities."""
    if any(map(has_dot_identity, (case.path_parameters, case.query, case.body))):
        return False
    return case.method != "DELETE" or not KEEP.intersection((case.path_parameters or {}).values())
