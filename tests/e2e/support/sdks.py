"""LiveKit's SDKs: their versions, and the sources of their packages."""

import os
import re
import shutil
import subprocess

PYTHON_SDK = "1.2.1"
NODE_SDK = "1.1.0"
GO_SDK = "2.19.0"


class Missing(Exception):
    """A missing program or package."""


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Missing(f"{program} is not installed")


def command(*words, cwd=None):
    """Runs a command, and shows its output only if it fails."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise Missing(f"{' '.join(map(str, words))} failed:\n{tail}")
    return done.stdout


def stamped(folder, contents, make):
    """Creates a folder, unless it was created from the same contents before."""
    stamp = folder / ".made-from"
    if stamp.exists() and stamp.read_text() == contents:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make(folder)
    stamp.write_text(contents)
    return folder


def go_module(path, version, folder):
    """Copies a Go module's sources, with its tests, from the module proxy."""
    need("go")
    described = command("go", "mod", "download", "-json", f"{path}@v{version}", cwd=folder)
    source = re.search(r'"Dir": "(.*)"', described).group(1)
    shutil.copytree(source, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
    # The module cache is read only.
    for made, _, _ in os.walk(folder):
        os.chmod(made, 0o755)
