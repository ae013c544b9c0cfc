"""Prerequisites of the checks: programs, packages, and a build of Conclave."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .sdks import PYTHON_SDK

# Exit status of a check that cannot run here.
SKIPPED = 77
ROOT = Path(__file__).resolve().parents[3]
# Alternative names of programs.
NAMES = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "firefox-esr": ("firefox-esr", "firefox")}
PLAYWRIGHT, AXE = "1.64.1", "4.14.1"


def target_directory():
    metadata = subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=ROOT, text=True)
    return Path(json.loads(metadata)["target_directory"])


def program():
    """Returns the program under test, which is built unless CONCLAVE_BIN names one."""
    if given := os.environ.get("CONCLAVE_BIN"):
        return Path(given).resolve()
    # The whole workspace, like the tests: building a single package would select other features of the dependencies.
    subprocess.run(["cargo", "build", "--quiet", "--workspace", "--bins"], cwd=ROOT, check=True)
    return target_directory() / "debug" / "conclave"


# -------------------------------------------------------------------------------------------------------------- programs


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def find(name):
    """Returns the path of a program, or None."""
    if name == "postgres":
        return postgres_programs()
    return next(filter(None, map(shutil.which, NAMES.get(name, (name,)))), None)


def need(*programs):
    """Skips the check if a program is not installed."""
    if missing := [program for program in programs if not find(program)]:
        skip(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed")


def has_chromium():
    return find("chromium") is not None


def has_firefox():
    return find("firefox-esr") is not None


def postgres_programs():
    """Returns the folder of PostgreSQL's programs; None where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    in_path = shutil.which("initdb")
    return found[-1] if found else in_path and Path(in_path).parent


# -------------------------------------------------------------------------------------------------------------- packages


def in_environment(verb, name, arguments):
    """Runs this check again with LiveKit's Python SDK, which is installed if it is missing."""
    venv = target_directory() / "check-clients" / f"livekit-{PYTHON_SDK}"
    if Path(sys.prefix) == venv:
        return
    if not (venv / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        if subprocess.run([venv / "bin" / "python", "-m", "pip", "install", "--quiet", f"livekit=={PYTHON_SDK}"]).returncode:
            skip(f"the package livekit {PYTHON_SDK} of Python cannot be installed")
        (venv / "installed").touch()
    python = str(venv / "bin" / "python")
    os.execv(python, [python, str(ROOT / "scripts" / verb), name, "--", *arguments])


def has_package(package):
    """Installs a Python package beside the SDK, in this program's environment, once. Returns whether it is installed."""
    mark = Path(sys.prefix) / f"installed-{package}"
    if not mark.exists():
        if subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", package]).returncode:
            return False
        mark.touch()
    return True


def for_browsers(with_program=True):
    """Returns the variables for checks in JavaScript: browsers, the program, and the folder of playwright-core and axe-core, which
    are installed if they are missing."""
    need("node", "npm", "chromium")
    tools = target_directory() / "check-console" / f"playwright-{PLAYWRIGHT}-axe-{AXE}"
    if not (tools / "installed").exists():
        tools.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix", tools]
        if subprocess.run([*install, f"playwright-core@{PLAYWRIGHT}", f"axe-core@{AXE}"]).returncode:
            skip("playwright-core and axe-core cannot be installed")
        (tools / "installed").touch()
    variables = {"CHROMIUM": find("chromium"), "FIREFOX": find("firefox-esr") or "", "TOOLS": str(tools)}
    return variables | ({"CONCLAVE_BIN": str(program())} if with_program else {})


def validator():
    """Builds the program that validates compose files and manifests, and returns its path. None if it cannot be built."""
    built = target_directory() / "check-deploy" / "validate"
    command = ["go", "build", "-o", built, "."]
    is_built = shutil.which("go") and subprocess.run(command, cwd=ROOT / "tests" / "e2e" / "deploy").returncode == 0
    return built if is_built else None
