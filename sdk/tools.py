"""Tools of the three ecosystems, pinned here and in the lock files beside the SDKs.

They are installed once, in `target/sdk`, with everything that the checks need.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import venv
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SDK = ROOT / "sdk"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "sdk"
STARTED = time.monotonic()


# Oldest version of each language's program that the tools run on.
NEEDED = {"node": (20, 19), "go": (1, 26)}


def say(text, to=None):
    """Prints the current step, with the seconds since the start, to stdout or another file."""
    print(f"[{time.monotonic() - STARTED:3.0f} s] {text}", file=to, flush=True)


def run(command, **options):
    """Runs a command, and returns its output. Raises RuntimeError with the output if the command fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def missing(language):
    """Returns a language's requirement that this machine lacks, or None."""
    program = {"typescript": "node", "react": "node", "go": "go"}.get(language)
    if program is None:
        return None
    oldest = ".".join(map(str, NEEDED[program]))
    if not shutil.which(program) or (program == "node" and not shutil.which("npm")):
        return f"{program} {oldest} or newer is not installed"
    version = run([program, "version" if program == "go" else "--version"])
    found = tuple(int(part) for part in re.search(r"(\d+)\.(\d+)", version).groups())
    return None if found >= NEEDED[program] else f"{program} is older than {oldest}"


def python_tools():
    """Returns an environment whose PATH starts with the tools of sdk/python/requirements.txt."""
    requirements = SDK / "python" / "requirements.txt"
    folder = TARGET / f"python-{sha256(requirements.read_bytes()).hexdigest()[:12]}"
    if not (folder / "installed").exists():
        say("python: installing the tools", sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        run([folder / "bin" / "pip", "install", "--quiet", "--requirement", requirements])
        (folder / "installed").touch()
    return os.environ | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(folder)}


def node_modules(package="typescript"):
    """Returns the folder with the packages of a package-lock.json below sdk/."""
    lock = SDK / package / "package-lock.json"
    folder = TARGET / f"{package}-{sha256(lock.read_bytes()).hexdigest()[:12]}"
    if not (folder / "installed").exists():
        say(f"{package}: installing the packages of npm", sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SDK / package / name, folder)
        run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=folder)
        (folder / "installed").touch()
    return folder / "node_modules"


# Source of each tool.
GO_TOOLS = {
    "staticcheck": "honnef.co/go/tools/cmd/staticcheck@v0.8.2",
}


def go_tool(name):
    """Returns the path of a program in GO_TOOLS."""
    source = GO_TOOLS[name]
    folder = TARGET / f"go-{name}-{source.rpartition('@')[2]}"
    if not (folder / name).exists():
        say(f"go: installing {name}", sys.stderr)
        run(["go", "install", source], env=os.environ | {"GOBIN": str(folder.absolute()), "GOFLAGS": ""})
    return folder / name
