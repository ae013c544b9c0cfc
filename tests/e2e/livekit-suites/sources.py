"""Downloads the suites of LiveKit's clients and server: sources from the Go module proxy, PyPI and npm, to a folder outside the repository."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..support.preparation import ROOT
from ..support.sdks import GO_SDK, NODE_SDK, PYTHON_SDK, Missing, command, go_module, need, stamped
from .tokens import KEY, SECRET

HERE = Path(__file__).resolve().parent

LIVEKIT_SERVER = "1.13.5"
PYTHON_PACKAGES = ["livekit-api==1.2.2", "pytest==8.4.2", "pytest-asyncio==1.2.0"]
# Packages that the Node.js SDK's tests need in addition to its declared dependencies.
NODE_PACKAGES = ["vitest@4.0.8", "livekit-server-sdk@2.19.1"]


def default_cache():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "conclave-livekit-suites"


def patch(file, *changes):
    """Replaces texts in a file, each of which must occur."""
    text = file.read_text()
    for old, new in changes:
        changed = re.sub(old, new, text, flags=re.MULTILINE | re.DOTALL)
        if changed == text:
            raise Missing(f"{file.name} has changed: there is no {old}")
        text = changed
    file.write_text(without_unused_imports(text))


def function(name):
    """Returns the pattern of a top-level Go function."""
    return rf"^func {name}\(.*?^}}\n"


def without_unused_imports(text):
    """Renames the unused imports of a Go file to `_`."""
    block = re.search(r"^import \((.*?)^\)", text, flags=re.MULTILINE | re.DOTALL)
    if not block:
        return text
    rest = text[block.end():]

    def line(found):
        path = found.group(2)
        name = found.group(1).strip() or re.sub(r"/v\d+$", "", path).rsplit("/", 1)[-1].removeprefix("go-")
        return found.group(0) if name == "_" or re.search(rf"\b{name}\.", rest) else f'\t_ "{path}"'

    imports = re.sub(r'^\t([\w ]*)"([^"]+)"', line, block.group(0), flags=re.MULTILINE)
    return text[: block.start()] + imports + rest


def integration_tests(cache):
    """Returns the compiled integration tests of livekit-server, which run against an external server."""
    ours = HERE / "integration" / "server.go"

    def make(folder):
        go_module("github.com/livekit/livekit-server", LIVEKIT_SERVER, folder)
        tests = folder / "test"
        for name in ("agent.go", "agent_test.go", "webhook_test.go"):
            (tests / name).unlink()
        removed = [
            "setupSingleNodeTest", "setupMultiNodeTest", "setupMultiNodeTestWithConfig", "waitForServerToStart",
            "createSingleNodeServer", "createMultiNodeServer", "redisClient",
        ]
        patch(
            tests / "integration_helpers.go",
            *((function(name), "") for name in removed),
            (r"^\s*(default|second)ServerPort += \d+\n", ""),
            (r'(testApiKey += )"[^"]*"', rf'\1"{KEY}"'),
            (r'(testApiSecret += )"[^"]*"', rf'\1"{SECRET}"'),
        )
        patch(
            tests / "singlenode_test.go",
            (function("TestConnectionStats"), ""),
            (r"\*service\.LivekitServer", "*suiteServer"),
        )
        patch(tests / "multinode_test.go", (function("TestMultinodeReconnectAfterNodeShutdown"), ""))
        shutil.copyfile(ours, tests / "suite_server.go")
        command("go", "test", "-c", "-o", folder / "suite.test", "./test", cwd=folder)

    folder = stamped(cache / f"livekit-server-{LIVEKIT_SERVER}", ours.read_text() + Path(__file__).read_text(), make)
    return folder / "suite.test", folder / "test"


def livekit_server(cache):
    """Builds a livekit-server, unless it was built before."""
    binary = cache / f"livekit-server-{LIVEKIT_SERVER}-program" / "livekit-server"

    def make(folder):
        go_module("github.com/livekit/livekit-server", LIVEKIT_SERVER, folder)
        command("go", "build", "-o", binary, "./cmd/server", cwd=folder)

    stamped(binary.parent, LIVEKIT_SERVER, make)
    return binary


def check_page(program):
    """A livekit-server reads the settings in docs/livekit.md. It rejects unknown settings, with status 0, before it prints its ports."""
    page = (ROOT / "docs" / "livekit.md").read_text()
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
        file.flush()
        said = subprocess.run([program, "--config", file.name, "ports"], capture_output=True, text=True)
    if "7880 - HTTP service" not in said.stdout:
        raise SystemExit(f"docs/livekit.md: {said.stdout}{said.stderr}")


def go_sdk(cache):
    """Returns the compiled tests of LiveKit's Go SDK, and the load tester, which uses it."""
    load = HERE / "load" / "main.go"

    def make(folder):
        go_module("github.com/livekit/server-sdk-go/v2", GO_SDK, folder)
        patch(
            folder / "integration_test.go",
            (r'^const \(\n\thost = "ws://localhost:7880"\n\)\n', 'var host = os.Getenv("LIVEKIT_URL")\n'),
        )
        command("go", "test", "-c", "-o", folder / "suite.test", ".", cwd=folder)
        (folder / "suite-load").mkdir()
        shutil.copyfile(load, folder / "suite-load" / "main.go")
        command("go", "build", "-o", folder / "load", "./suite-load", cwd=folder)

    folder = stamped(cache / f"server-sdk-go-{GO_SDK}", load.read_text() + Path(__file__).read_text(), make)
    return folder


def python_sdk(cache):
    """Returns an interpreter with LiveKit's Python SDK, and the folder of the SDK's tests."""
    helpers = HERE / "python" / "utils.py"

    def make(folder):
        command(sys.executable, "-m", "venv", folder / "venv")
        pip = [folder / "venv" / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
        command(*pip, "install", f"livekit=={PYTHON_SDK}", *PYTHON_PACKAGES)
        # Only the source archive contains the tests.
        command(*pip, "download", "--no-deps", "--no-binary", "livekit", f"livekit=={PYTHON_SDK}", "--dest", folder)
        shutil.unpack_archive(next(folder.glob("livekit-*.tar.gz")), folder)
        tests = next(folder.glob("livekit-*/tests"))
        shutil.copytree(tests, folder / "tests")
        shutil.copyfile(helpers, folder / "tests" / "utils.py")
        (folder / "tests" / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")

    folder = stamped(cache / f"python-{PYTHON_SDK}", helpers.read_text() + " ".join(PYTHON_PACKAGES), make)
    return folder / "venv" / "bin" / "python", folder / "tests"


def node_sdk(cache):
    """Returns the folder of LiveKit's Node.js SDK, with its tests and their dependencies."""

    def make(folder):
        need("node", "npm")
        command("npm", "pack", "--silent", f"@livekit/rtc-node@{NODE_SDK}", cwd=folder)
        shutil.unpack_archive(next(folder.glob("*.tgz")), folder)
        # The tests need few of the SDK's development dependencies.
        command("npm", "pkg", "delete", "devDependencies", cwd=folder / "package")
        command("npm", "install", "--silent", "--no-audit", "--no-fund", *NODE_PACKAGES, cwd=folder / "package")

    return stamped(cache / f"node-{NODE_SDK}", " ".join(NODE_PACKAGES), make) / "package"
