"""The suites: each runs against the gateway and returns the result of each of its tests."""

import fnmatch
import json
import os
import re
import subprocess
import xml.etree.ElementTree as xml
from dataclasses import dataclass

from . import sources
from .tokens import KEY, SECRET

PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"
# Timeout of a command in seconds, after which its tests count as failed. The integration tests wait 30 s in each of three modes.
LIMIT = 300
MODES = re.compile(r"/(?:[^/]*)testRTCServicePath=([\w-]+)")


@dataclass
class Result:
    """A test's outcome, and the reason if it failed."""

    row: str
    outcome: str
    note: str = ""


class Context:
    """Parameters of a suite's run."""

    def __init__(self, gateway, cache, logs, wanted, left_out, load_seconds):
        self.gateway, self.cache, self.logs, self.load_seconds = gateway, cache, logs, load_seconds
        self.wanted, self.left_out = wanted, left_out

    def runs(self, suite, row):
        if any(fnmatch.fnmatchcase(row, one["row"]) for one in self.left_out if one["suite"] == suite):
            return False
        return self.wanted is None or bool(re.search(self.wanted, row))

    def skips(self, suite):
        """Returns the flags with which a Go test program leaves out parts of its tests."""
        parts = [one["row"] for one in self.left_out if one["suite"] == suite and re.fullmatch(r"[\w/]+/[\w/]+", one["row"])]
        return ["-test.skip", "|".join("/".join(f"^{name}$" for name in part.split("/")) for part in parts)] if parts else []

    def environment(self):
        return os.environ | {
            "SUITE_URL": self.gateway.url,
            "LIVEKIT_URL": self.gateway.url.replace("http", "ws", 1),
            "LIVEKIT_API_KEY": KEY,
            "LIVEKIT_API_SECRET": SECRET,
            "LIVEKIT_KEYS": f"{KEY}: {SECRET}",
        }

    def run(self, suite, command, folder, limit=LIMIT):
        """Runs a command. Returns its output, and whether it ended in time; a log contains everything."""
        process = subprocess.Popen(
            [str(word) for word in command], cwd=folder, env=self.environment(), text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )
        try:
            output, ended = process.communicate(timeout=limit)[0], True
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, ended = process.communicate()[0], False
        with (self.logs / f"{suite}-{self.gateway.server.kind}.log").open("a") as log:
            log.write(f"$ {' '.join(map(str, command))}\n{output}\n")
        return output, ended


GO_END = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
# testify's message for a failed assertion, and the messages of the waiting functions.
GO_REASON = re.compile(
    r"Error:\s+(?:Received unexpected error:\s+|Not equal:\s+)?(\S.*)|(did not reach expected state.*)|^panic: (.*)"
    r"|(\S+ could not connect after timeout)",
    re.MULTILINE,
)


def go_results(test, output, ended):
    """Returns the results of a Go test's leaves. A test in several connection modes is one row, which names the failed modes."""
    ends = {name: end for end, name in GO_END.findall(output)}
    names = list(ends) or [test]
    leaves = [name for name in names if not any(other.startswith(f"{name}/") for other in names)]
    if not ended or "panic: " in output:
        # Tests that were running at the timeout have no result line.
        running = re.findall(r"^=== RUN\s+(\S+)", output, re.MULTILINE)
        leaves = [name for name in running if not any(other.startswith(f"{name}/") for other in running)] or [test]
    rows = {}
    for name in leaves:
        mode = MODES.search(name)
        outcome = {"PASS": PASSED, "SKIP": SKIPPED}.get(ends.get(name), FAILED)
        rows.setdefault(MODES.sub("", name), []).append((mode.group(1) if mode else "", outcome))
    reasons = [next(filter(None, found)).strip() for found in GO_REASON.findall(output)]
    for row, modes in rows.items():
        failed = [mode for mode, outcome in modes if outcome == FAILED]
        outcome = FAILED if failed else modes[0][1]
        named = f"{', '.join(failed)}: " if any(failed) and len(failed) < len(modes) else ""
        why = reasons[0] if reasons else ("" if ended else f"no end after {LIMIT} s")
        yield Result(row, outcome, f"{named}{why}"[:160] if failed else "")


def go_tests(binary, folder, context, suite, prefix="Test"):
    listed = subprocess.check_output([binary, "-test.list", f"^{prefix}"], cwd=folder, env=context.environment(), text=True).split()
    return [test for test in listed if context.runs(suite, test)]


def integration(context):
    """LiveKit's integration tests. Each starts a server, including tests with several nodes."""
    binary, folder = sources.integration_tests(context.cache)
    for test in go_tests(binary, folder, context, "integration"):
        # So that requests before the first start reach a server.
        output, ended = context.run("integration", [binary, "-test.v", "-test.run", f"^{test}$"], folder)
        for result in go_results(test, output, ended):
            if context.runs("integration", result.row):
                yield result


def go(context):
    """The tests of LiveKit's Go SDK that need a server."""
    folder = sources.go_sdk(context.cache)
    needed = set(re.findall(r"^func (Test(?!Main)\w+)", (folder / "integration_test.go").read_text(), re.MULTILINE))
    context.gateway.start()
    for test in go_tests(folder / "suite.test", folder, context, "go"):
        if test in needed:
            flags = ["-test.v", "-test.run", f"^{test}$", *context.skips("go")]
            output, ended = context.run("go", [folder / "suite.test", *flags], folder)
            yield from (result for result in go_results(test, output, ended) if context.runs("go", result.row))


PYTHON_FILES = ["basic", "dc", "audio", "video", "change_video_quality", "e2ee_shared_key", "e2ee_per_participant"]


def python(context):
    """The tests of LiveKit's Python SDK that need a server."""
    interpreter, folder = sources.python_sdk(context.cache)
    context.gateway.start()
    for name in PYTHON_FILES:
        report = context.logs / f"python-{name}.xml"
        report.unlink(missing_ok=True)
        command = [interpreter, "-m", "pytest", "-q", f"--junitxml={report}", f"test_{name}.py"]
        if not context.runs("python", name) and context.wanted is None:
            continue
        context.run("python", command, folder)
        if not report.exists():
            yield Result(f"{name}", FAILED, "the tests did not end")
            continue
        for case in xml.parse(report).iter("testcase"):
            row = f"{name}: {case.get('name').removeprefix('test_')}"
            bad = next((part for part in case if part.tag in ("failure", "error")), None)
            skipped = any(part.tag == "skipped" for part in case)
            note = (bad.get("message") or "").splitlines()[0][:160] if bad is not None and bad.get("message") else ""
            if context.runs("python", row):
                yield Result(row, FAILED if bad is not None else SKIPPED if skipped else PASSED, note)


def node(context):
    """The tests of LiveKit's Node.js SDK that need a server."""
    folder = sources.node_sdk(context.cache)
    context.gateway.start()
    report = context.logs / "node.json"
    report.unlink(missing_ok=True)
    # One after the other: each has a time limit, which is too short for several at once on a small machine.
    vitest = [
        "node_modules/.bin/vitest", "run", "src/tests", "--no-file-parallelism", "--maxConcurrency=1", "--reporter=json",
        f"--outputFile={report}",
    ]
    context.run("node", vitest, folder, 3 * LIMIT)
    if not report.exists():
        yield Result("all", FAILED, "the tests did not end")
        return
    for file in json.loads(report.read_text())["testResults"]:
        for case in file["assertionResults"]:
            outcome = {"passed": PASSED, "failed": FAILED}.get(case["status"], SKIPPED)
            note = next(iter(case.get("failureMessages") or [""])).partition("\n")[0][:160]
            # vitest's report of a test that exceeds its time limit.
            note = f"no end after {case['duration'] / 1000:.0f} s" if "STACK_TRACE_ERROR" in note else note
            row = f"{case['ancestorTitles'][0].removeprefix('livekit-rtc ')}: {case['title']}"
            if context.runs("node", row):
                yield Result(row, outcome, note)


# The network loses nothing: these are packets that a busy machine did not forward.
MOST_LOST = 0.05
LOADS = {
    "1 publisher, 30 subscribers": ["-publishers", "1", "-subscribers", "30"],
    "8 publishers, who receive each other": ["-publishers", "8", "-meeting"],
}


def load(context):
    """A load tester, since LiveKit's own is not available as source from a package index."""
    folder = sources.go_sdk(context.cache)
    for row, arguments in LOADS.items():
        if not context.runs("load", row):
            continue
        context.gateway.start()
        before = context.gateway.server.cpu_seconds()
        output, _ = context.run("load", [folder / "load", *arguments, "-duration", f"{context.load_seconds}s"], folder)
        used = context.gateway.server.cpu_seconds() - before
        lines = [line for line in output.splitlines() if line.startswith('{"expected"')]
        if not lines:
            yield Result(row, FAILED, (output.strip().splitlines() or ["it printed nothing"])[-1][:160])
            continue
        found = json.loads(lines[-1])
        loss = found["lost"] / max(1, found["packets"] + found["lost"])
        note = f"{found['received']} of {found['expected']} tracks, {found['packets']} packets, {loss:.2%} lost, {used:.1f} s of CPU"
        yield Result(row, PASSED if found["received"] == found["expected"] and loss < MOST_LOST else FAILED, note)


ALL = {"integration": integration, "go": go, "python": python, "node": node, "load": load}
