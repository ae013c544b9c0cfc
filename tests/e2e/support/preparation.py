"""What the checks need before they begin: programs, LiveKit's Python SDK, and a build of Conclave."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from sdks import PYTHON_SDK

# The status of a check that cannot be run here.
SKIPPED = 77
ROOT = Path(__file__).resolve().parent.parent.parent


def target_directory():
    metadata = subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=ROOT, text=True)
    return Path(json.loads(metadata)["target_directory"])


def in_environment(*others):
    """Runs this program again with the SDK and other packages, which are installed if they are missing."""
    packages = [f"livekit=={PYTHON_SDK}", *others]
    venv = target_directory() / "check-clients" / "-".join(packages).replace("==", "-")
    if Path(sys.prefix) == venv:
        return
    if not (venv / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        if subprocess.run([venv / "bin" / "python", "-m", "pip", "install", "--quiet", *packages]).returncode:
            skip(f"the packages {' and '.join(packages)} of Python cannot be installed")
        (venv / "installed").touch()
    os.execv(venv / "bin" / "python", [str(venv / "bin" / "python"), *sys.argv])


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def need(*programs):
    """Skips the check if a program is not installed."""
    if missing := [program for program in programs if not shutil.which(program)]:
        skip(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed")


def has_chromium():
    return any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))


def has_firefox():
    return any(map(shutil.which, ("firefox-esr", "firefox")))


def validator():
    """Returns the program that reads compose files and manifests, which is built. None if it cannot be."""
    program = target_directory() / "check-deploy" / "validate"
    command = ["go", "build", "-o", program, "."]
    is_built = shutil.which("go") and subprocess.run(command, cwd=ROOT / "scripts" / "deploy").returncode == 0
    return program if is_built else None


def program():
    """Returns the program to check, which is built unless CONCLAVE_BIN names one."""
    if given := os.environ.get("CONCLAVE_BIN"):
        return Path(given).resolve()
    # The whole workspace, as the tests do: dependencies that are built for one package have other features.
    subprocess.run(["cargo", "build", "--quiet", "--workspace", "--bins"], cwd=ROOT, check=True)
    return target_directory() / "debug" / "conclave"
