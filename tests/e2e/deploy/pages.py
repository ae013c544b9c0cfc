"""Commands in docs/deployment.md and docs/running.md that would change this machine or need a service: they run in a copy of the
files that they name, with stand-ins for such programs."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from ..support import preparation
from ..support.blocks import blocks
from ..support.settings import environment

STAND_IN = Path(__file__).resolve().parent / "stand_in.py"
PROGRAMS = ("apt", "cargo", "conclave", "docker", "install", "kubectl", "podman", "sudo", "systemctl", "useradd")
PAGES = ("docs/deployment.md", "docs/running.md")
# Files whose comments repeat a block's commands.
COMMENTED = {"compose": "deploy/compose.yaml", "kubernetes": "deploy/kubernetes/kustomization.yaml"}
# Files and folders in the commands.
FILES = ("Cargo.toml", "Containerfile", "config", "deploy")


def copy_sources(folder):
    folder.mkdir()
    for name in FILES:
        source = preparation.ROOT / name
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy2(source, folder / name)


def stand_ins(folder):
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).symlink_to(STAND_IN)


def run_block(name, text, folder, root, program, validate):
    variables = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "CHECK_PATH": os.environ["PATH"], "CHECK_FOLDER": str(root),
        "CHECK_PROGRAM": str(program), "CHECK_VALIDATE": str(validate), "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder / "sources", env=environment(variables), capture_output=True, text=True
    )
    assert done.returncode == 0, f"{name}: {text}\nfailed: {done.stdout}{done.stderr}"


def is_in_comments(name, text):
    """The file for which the commands are written contains the same commands in its comments."""
    comments = re.findall(r"^# ?(.*)$", (preparation.ROOT / COMMENTED[name]).read_text(), re.MULTILINE)
    commented = "\n".join(line.strip() for line in comments)
    assert text.strip() in commented, f"the comments of {COMMENTED[name]} have other commands than the page:\n{text}"


def has_secret(root):
    """The manifests use the secrets that the page creates."""
    made, manifests = json.loads((root / "notes.json").read_text()), (root / "manifests.yaml").read_text()
    for key, name in re.findall(r"secretKeyRef:\n +key: (\S+)\n +name: (\S+)", manifests):
        assert name == made["secret"] and key in made["keys"], f"the page creates no {key} in {name}"


def check(program, validate, folder):
    """Runs all blocks. Returns their names."""
    copy_sources(folder / "sources")
    stand_ins(folder / "bin")
    ran, skipped = [], []
    for page in PAGES:
        for name, text in blocks(preparation.ROOT / page).items():
            if "kubectl" in text and not shutil.which("kubectl"):
                skipped.append(name)
                continue
            root = folder / Path(page).stem
            root.mkdir(exist_ok=True)
            run_block(name, text, folder, root, program, validate)
            if name in COMMENTED:
                is_in_comments(name, text)
            if "secret" in text:
                has_secret(root)
            ran.append(name)
    assert len(ran) + len(skipped) > 4, ran
    return ", ".join(ran) + (f"; without kubectl not run: {', '.join(skipped)}" if skipped else "")
