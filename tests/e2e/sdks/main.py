"""Checks the SDKs: the generated files, their tests, their linters, the packages in sdk/packages, and a scenario in each
language against a real server, with the SDK from that server, installed in an empty project by the documented command.

    scripts/check sdks           all languages
    scripts/check sdks python    one language

The scenario creates a template, a room, tokens and a code, adds simulated participants, moderates and records them, gets the
file by an expiring link, receives and verifies webhooks, reads paged lists, and is disturbed by 429, 503, cut connections and a
kill: see server.py. Then the examples in the SDK's README run, and the examples in README.md.

Needs python3 (3.11 or newer, with venv), and for their languages Node.js with npm, and Go; a language that is missing or too
old is skipped. The tools are installed in target/sdk, the first time from the package indexes.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from ..support import preparation
from ..support.preparation import ROOT
from ..support.server import free_port
from ..support.telling import wait_for
from .server import Backend, Proxy

sys.path.insert(0, str(ROOT / "sdk"))

import packing  # noqa: E402
import tools  # noqa: E402
from tools import run, say  # noqa: E402

SCENARIO_SECONDS = 300
# Time limit for a receiver in seconds.
PATIENCE = 30
HERE = Path(__file__).resolve().parent
# The admin listener's address in the documents.
SHOWN = "http://127.0.0.1:8081"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", nargs="*", choices=[[], *LANGUAGES])
    chosen = parser.parse_args().language or list(LANGUAGES)
    for name in chosen:
        if reason := tools.missing(name):
            say(f"{name}: skipped, {reason}")
    chosen = [name for name in chosen if not tools.missing(name)]
    program = preparation.program()
    packing.check_versions()
    say("what is generated")
    print(run([ROOT / "sdk" / "generate", "--check", *chosen]), end="")
    # In parallel: they mostly wait.
    with ThreadPoolExecutor() as pool:
        problems = [problem for found in pool.map(lambda name: check(name, program), chosen) for problem in found]
    for problem in problems:
        print(f"FAILED {problem}")
    say(f"{len(chosen)} SDKs, {len(problems)} failures")
    return bool(problems)


def check(name, program):
    """Returns an SDK's problems."""
    with tempfile.TemporaryDirectory(prefix="conclave-sdk.") as folder:
        work = Path(folder)
        try:
            language = LANGUAGES[name](work)
            say(f"{name}: linters and tests")
            language.lint_and_test()
            say(f"{name}: packed again")
            # The React component needs the same tools as TypeScript.
            packed = ("typescript", "react") if name == "typescript" else (name,)
            if problems := [problem for package in packed for problem in packing.stale(package)]:
                return problems
            say(f"{name}: installed from a server in an empty project")
            readme = ROOT / "sdk" / name / "README.md"
            texts = dict(zip(("calls", *language.receivers), examples(readme, language.fence), strict=True))
            first_screen = examples(ROOT / "README.md", language.fence)
            texts |= {"first": text for text in first_screen}
            [command] = examples(readme, "bash")
            if command.strip() not in "".join(examples(ROOT / "README.md", "bash")):
                return [f"{name}: README.md has another command than {command.strip()}"]
            with packages(name, program, work) as admin:
                language.install(command.replace(SHOWN, admin))
            language.build(texts)
            return play(name, language, program, work) + read_me(name, language, program, work, bool(first_screen))
        except (subprocess.SubprocessError, RuntimeError, AssertionError, OSError) as error:
            return [f"{name}: {error}"]


@contextmanager
def packages(name, program, work):
    """Starts a server that serves the SDK's packages, and returns the address of its admin listener."""
    server = start_server(program, work / "server-of-packages")
    try:
        admin = server.ready["admin"]
        with urllib.request.urlopen(f"{admin}/sdk/", timeout=20) as page:
            shown = page.read().decode()
        [archive, *_] = packing.EMBEDDED[name].values()
        if sha256((packing.PACKAGES / archive).read_bytes()).hexdigest() not in shown:
            raise RuntimeError(f"the program has another sdk/packages/{archive}: build it again")
        yield admin
    finally:
        server.kill()


def start_server(program, folder):
    folder.mkdir()
    return Backend(program, folder)


def play(name, language, program, work):
    """Runs the scenario; returns its failures."""
    server = start_server(program, work / "server")
    try:
        proxy = Proxy(server)
        variables = {"CONCLAVE_URL": proxy.url, "CONCLAVE_KEY": server.key}
        done = subprocess.run(
            language.program("scenario"),
            env=language.environment | variables,
            cwd=language.project,
            timeout=SCENARIO_SECONDS,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        say(f"{name}: the scenario\n{done.stdout.rstrip()}")
        failed = [f"the scenario ended with {done.returncode}"] if done.returncode else proxy.problems()
        return [f"{name}: {problem}" for problem in failed]
    finally:
        server.kill()


# ------------------------------------------------------------------------------------------------------------ examples


def examples(readme, language):
    """Returns a README's examples in a language: a call, and a receiver."""
    return re.findall(rf"^```{language}\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)


def read_me(name, language, program, work, has_first):
    """Runs the examples in an SDK's README, and the example in README.md if it has one; returns their failures."""
    server = start_server(program, work / "server-of-examples")
    try:
        variables = {"CONCLAVE_URL": server.ready["api"], "CONCLAVE_KEY": server.key}
        # Each runs twice, like a newcomer's second attempt: by then the room "standup" exists.
        for example in [*(["first"] * 2 if has_first else []), "calls", "calls"]:
            printed = run(language.program(example), env=language.environment | variables, cwd=language.project)
        if "standup open nobody yet" not in printed:
            return [f"{name}: the example of calls printed {printed}"]
        missing = []
        for example, wanted in language.receivers.items():
            received = receive(language, example, wanted[-1], server)
            missing += [f"{name}: {example} has not printed {line}" for line in wanted if line not in received]
        say(f"{name}: the examples of its README")
        return missing
    finally:
        server.kill()


def receive(language, example, last, server):
    """Runs a receiver's example, and returns its output when a participant joins."""
    port = free_port()
    endpoint = server.request("POST", "/v1/webhook-endpoints", {"url": f"http://127.0.0.1:{port}/hooks"})
    variables = {"PORT": str(port), "CONCLAVE_WEBHOOK_SECRET": endpoint["secret"]}
    output = language.project / f"{example}.log"
    with open(output, "wb") as log:
        process = subprocess.Popen(
            language.program(example),
            env=language.environment | variables,
            cwd=language.project,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for("the receiver listens", lambda: listens(port), PATIENCE)
        token = server.request("POST", "/v1/tokens", {"room": "standup", "identity": "alice", "role": "host"})
        server.request("POST", "/sandbox/join", {"token": token["token"]})
        wait_for(f"{last} is printed", lambda: last in output.read_text(), PATIENCE)
        server.send_test_event(endpoint["id"])
        wait_for("the test event of the console is accepted", lambda: is_accepted(server, endpoint["id"]), PATIENCE)
    finally:
        # The process group includes the example's own children.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        server.request("DELETE", f"/v1/webhook-endpoints/{endpoint['id']}")
    return output.read_text().splitlines()


def is_accepted(server, endpoint):
    """Returns whether a receiver has accepted the test event. Raises RuntimeError if it has rejected it."""
    deliveries = server.request("GET", f"/v1/webhook-deliveries?endpoint_id={endpoint}")["webhook_deliveries"]
    [test] = [one for one in deliveries if one["event_type"] == "webhook.test"]
    if test["attempts"] and test["status"] != "delivered":
        raise RuntimeError(f"the receiver does not accept the test event: {test}")
    return test["status"] == "delivered"


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


# ----------------------------------------------------------------------------------------------------------- languages


JOINED = ["participant.joined standup", "alice is here"]


class Python:
    fence = "python"
    # The README's receiver examples, and their output.
    receivers = {"receiver": JOINED, "flask_receiver": JOINED[:1]}

    def __init__(self, work):
        self.sdk, self.work = ROOT / "sdk" / "python", work
        self.tools = tools.python_tools()
        self.project = work / "project"
        self.interpreter = self.project / "venv" / "bin" / "python"
        self.environment = dict(os.environ)

    def lint_and_test(self):
        scenario = HERE / "python"
        run(["ruff", "format", "--check", self.sdk], env=self.tools)
        run(["ruff", "check", self.sdk], env=self.tools)
        config = ["--config", self.sdk / "pyproject.toml"]
        run(["ruff", "format", *config, "--check", scenario], env=self.tools)
        run(["ruff", "check", *config, "--extend-ignore", "S101", scenario], env=self.tools)
        run(["python", "-m", "pytest", "-q"], env=self.tools, cwd=self.sdk)
        run(
            ["pyright", "--pythonpath", Path(self.tools["VIRTUAL_ENV"]) / "bin" / "python"],
            env=self.tools,
            cwd=self.sdk,
        )
        run(["mypy"], env=self.tools, cwd=self.sdk)

    def install(self, command):
        self.project.mkdir()
        run([sys.executable, "-m", "venv", self.project / "venv"])
        path = f"{self.interpreter.parent}{os.pathsep}{os.environ['PATH']}"
        environment = self.environment | {"PATH": path, "PIP_CONSTRAINT": str(self.sdk / "requirements.txt")}
        run(["bash", "-euc", command], env=environment, cwd=self.project)
        run([self.interpreter, "-m", "pip", "install", "--quiet", "fastapi", "flask", "uvicorn"], env=environment)

    def build(self, examples):
        examples["scenario"] = (HERE / "python" / "scenario.py").read_text()
        for name, text in examples.items():
            (self.project / f"{name}.py").write_text(text)
        # From the user's side: the types of the installed package.
        (self.project / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "exclude": ["venv"]}')
        run(["pyright", "--pythonpath", self.interpreter], env=self.tools, cwd=self.project)
        # The examples' frameworks are type-checked, too, but not their dependencies.
        mypy = ["mypy", "--strict", "--cache-dir", os.devnull, "--follow-imports", "silent", "--python-executable"]
        run([*mypy, self.interpreter, *(f"{name}.py" for name in examples)], env=self.tools, cwd=self.project)

    def program(self, name):
        return [self.interpreter, f"{name}.py"]


class TypeScript:
    fence = "ts"
    receivers = {"receiver": JOINED}

    def __init__(self, work):
        self.source, self.modules = ROOT / "sdk" / "typescript", tools.node_modules()
        # Built in a copy.
        self.sdk = work / "typescript"
        self.project = work / "project"
        self.environment = os.environ | {
            "WEBHOOK_VECTORS": str(ROOT / "sdk" / "vectors.json"),
            "OPERATIONS": str(ROOT / "sdk" / "operations.json"),
            "OPENAPI": str(ROOT / "tests" / "data" / "openapi.json"),
        }

    def npm(self, *arguments, folder=None):
        return run(["npm", "--silent", *arguments], cwd=folder or self.sdk, env=self.environment)

    def lint_and_test(self):
        shutil.copytree(self.source, self.sdk)
        (self.sdk / "node_modules").symlink_to(self.modules)
        shutil.copy(HERE / "typescript" / "scenario.ts", self.sdk / "test")
        self.npm("run", "lint")
        (self.sdk / "test" / "scenario.ts").unlink()
        self.npm("test")

    def install(self, command):
        self.project.mkdir()
        versions = json.loads((self.source / "package.json").read_text())["devDependencies"]
        wanted = [f"{name}@{versions[name]}" for name in ("express", "typescript", "@types/express", "@types/node")]
        (self.project / "package.json").write_text('{"private": true, "type": "module"}')
        run(["bash", "-euc", command], cwd=self.project, env=self.environment)
        self.npm("install", "--no-audit", "--no-fund", *wanted, folder=self.project)

    def build(self, examples):
        examples["scenario"] = (HERE / "typescript" / "scenario.ts").read_text()
        for name, text in examples.items():
            (self.project / f"{name}.ts").write_text(text)
        # Types and code of the other module kind.
        (self.project / "common.cts").write_text(COMMON_JS)
        strict = {"strict": True, "exactOptionalPropertyTypes": True, "target": "ES2022", "module": "NodeNext", "types": ["node"]}
        (self.project / "tsconfig.json").write_text(json.dumps({"compilerOptions": strict}))
        run(["npx", "tsc"], cwd=self.project)
        run(["node", "common.cjs"], cwd=self.project)

    def program(self, name):
        return ["node", f"{name}.js"]


COMMON_JS = """
import sdk = require("conclave-sdk");
const conclave: sdk.Conclave = new sdk.Conclave({ url: "http://127.0.0.1:9", apiKey: "vk", retry: { maxRetries: 0 } });
conclave.listRooms().then(
  () => process.exit(1),
  (error) => process.exit(error instanceof sdk.ConclaveError && error.code === "connection_failed" ? 0 : 1),
);
"""


class Go:
    fence = "go"
    receivers = {"receiver": JOINED}
    # A possible address of a repository: the module's path after `sdk/go-module`.
    module = "git.example.com/acme/conclave/sdk/go"

    def __init__(self, work):
        self.sdk, self.work = ROOT / "sdk" / "go", work
        self.project = work / "project"
        downloads = Path(run(["go", "env", "GOMODCACHE"]).strip()) / "cache" / "download"
        # A separate module cache: this version differs each time.
        self.environment = os.environ | {
            "GOPROXY": f"file://{downloads},{run(['go', 'env', 'GOPROXY']).strip()}",
            "GOMODCACHE": str(work / "modules"),
            "GOFLAGS": "-modcacherw",
        }

    def lint_and_test(self):
        scenario = HERE / "go"
        if badly_formatted := run(["gofmt", "-l", self.sdk, scenario]):
            raise RuntimeError(f"gofmt would change {badly_formatted}")
        run(["go", "vet", "./..."], cwd=self.sdk)
        run([tools.go_tool("staticcheck"), "./..."], cwd=self.sdk)
        run(["go", "test", "./..."], cwd=self.sdk)

        renamed = self.work / "go"
        shutil.copytree(self.sdk, renamed)
        packing.rename_go(self.module, [renamed])
        run(["go", "vet", "./..."], cwd=renamed)

    def install(self, command):
        self.project.mkdir()
        run(["go", "mod", "init", "example.org/project"], cwd=self.project, env=self.environment)
        run(["bash", "-euc", command], cwd=self.project, env=self.environment)

    def build(self, examples):
        examples["scenario"] = (HERE / "go" / "scenario.go").read_text()
        for name, text in examples.items():
            (self.project / name).mkdir()
            (self.project / name / "main.go").write_text(text)
        if badly_formatted := run(["gofmt", "-l", "."], cwd=self.project):
            raise RuntimeError(f"gofmt would change {badly_formatted}")
        # The server has stopped: the module comes from the cache.
        run(["go", "mod", "tidy"], cwd=self.project, env=self.environment)
        run(["go", "vet", "./..."], cwd=self.project, env=self.environment)
        run(["go", "mod", "vendor"], cwd=self.project, env=self.environment)
        # Like on another machine, with only the folder `vendor`.
        elsewhere = self.environment | {"GOPROXY": "off", "GOMODCACHE": str(self.work / "none")}
        run(["go", "build", "-o", "programs/", "./..."], cwd=self.project, env=elsewhere)

    def program(self, name):
        return [self.project / "programs" / name]


LANGUAGES = {"python": Python, "typescript": TypeScript, "go": Go}
