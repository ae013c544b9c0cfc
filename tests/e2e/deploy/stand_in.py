#!/usr/bin/env python3
"""A stand-in for a program that would change this machine, or that needs a missing service. It is called by that program's name,
checks the arguments, and does the part that is possible in a folder. See pages.py.

CHECK_FOLDER is the root of the file system for the programs, CHECK_PROGRAM the server, CHECK_VALIDATE the program of this folder, and
CHECK_PATH the PATH of the real programs.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from e2e.support.settings import check_settings  # noqa: E402

FOLDER, SOURCES = Path(os.environ["CHECK_FOLDER"]), Path.cwd()
PROGRAM, VALIDATE, REAL = (os.environ[f"CHECK_{name}"] for name in ("PROGRAM", "VALIDATE", "PATH"))
NOTES = FOLDER / "notes.json"


def note(**what):
    """Saves values that later commands refer to."""
    NOTES.write_text(json.dumps(notes() | what))


def notes():
    return json.loads(NOTES.read_text()) if NOTES.exists() else {}


def expect(is_right, message):
    if not is_right:
        sys.exit(f"{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}: {message}")


def run(*command, **options):
    if code := subprocess.run([str(word) for word in command], **options).returncode:
        sys.exit(code)


def below(word):
    """Returns a path of the machine inside the folder."""
    return str(FOLDER) + word if re.match(r"/(etc|var|usr)/", word) else word


def conclave(words):
    """The program in a container, in a pod, or installed. A reader replaces `prj_...` by the id of the project created before."""
    words = [notes()["project"] if word == "prj_..." else below(word) for word in words]
    env = {**os.environ, "CONCLAVE_ADMIN__TOKEN": "a-token-of-this-check"}
    done = subprocess.run([PROGRAM, *words], env=env, stdout=subprocess.PIPE, text=True)
    expect(done.returncode == 0, done.stdout)
    if created := re.search(r"prj_\w+", done.stdout):
        note(project=created[0])


def in_container(words):
    expect(words[0] == "conclave", "the image has no other program")
    conclave(["--data", str(FOLDER / "data"), *words[1:]])


# ------------------------------------------------------------------------------------------------------------- a machine


def sudo(words):
    if words[0] == "-u":
        expect(words[1] == notes().get("user"), "there is no such user")
        words = words[2:]
    os.execvp(words[0], words)


def apt(words):
    version = re.search(r'^version = "(.*)"', (SOURCES / "Cargo.toml").read_text(), re.MULTILINE)[1]
    expect(words == ["install", f"./conclave_{version}-1_amd64.deb"], "scripts/release makes another file")


def cargo(words):
    expect(words[:2] == ["build", "--profile"], "not known here")
    expect(f"[profile.{words[2]}]" in (SOURCES / "Cargo.toml").read_text(), "there is no such profile")
    built = SOURCES / "target" / words[2] / "conclave"
    built.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(PROGRAM, built)


def useradd(words):
    if real := shutil.which("useradd", path=f"{REAL}:/usr/sbin"):
        known = subprocess.run([real, "--help"], capture_output=True, text=True).stdout
        for word in words[:-1]:
            expect(re.search(rf"{word}\b", known), f"it has no {word}")
    note(user=words[-1])


def install(words):
    if "-g" in words:
        at = words.index("-g")
        expect(words[at + 1] == notes().get("user"), "there is no such group")
        words = words[:at] + words[at + 2 :]
    to = Path(below(words[-1]))
    # Existing folders on every machine.
    if str(to).startswith((f"{FOLDER}/usr", f"{FOLDER}/etc/systemd")):
        to.parent.mkdir(parents=True, exist_ok=True)
    run(shutil.which("install", path=REAL), *words[:-1], to)


def systemctl(words):
    expect(words[:2] == ["enable", "--now"], "not known here")
    unit = FOLDER / "etc/systemd/system" / f"{words[2]}.service"
    expect(unit.exists(), "there is no such unit")
    text = unit.read_text()
    expect(f"User={notes().get('user')}\n" in text, "the unit is for another user")
    expect((FOLDER / "usr/local/bin/conclave").exists(), "the program is not installed")
    for command in re.findall(r"^ExecStart(?:Pre)?=conclave (.*)$", text, re.MULTILINE):
        config = re.search(r"--config (\S+)", command)[1]
        expect(Path(below(config)).exists(), f"there is no {config}")


# ------------------------------------------------------------------------------------------------------------ containers


def has_known_options(tool, words):
    """Checks the arguments with the tool, where it is installed. There is no daemon at that address."""
    if real := shutil.which(tool, path=REAL) or shutil.which("docker", path=REAL):
        env = {**os.environ, "DOCKER_HOST": "unix:///nowhere.sock", "CONTAINER_HOST": "unix:///nowhere.sock"}
        said = subprocess.run([real, *words], capture_output=True, text=True, env=env).stderr
        expect(re.search("unknown|invalid|requires", said) is None, said)


def podman(words):
    containerfile = (SOURCES / "Containerfile").read_text()
    has_known_options("podman", words)
    if words[0] == "build":
        expect(words[-1] == ".", "the Containerfile is in the folder of the sources")
        note(image=words[words.index("--tag") + 1])
    elif words[0] == "run":
        expect(words[-1] == notes().get("image"), "there is no such image")
        options = dict(zip(words[1:-1], words[2:]))
        expect(f"VOLUME {options['--volume'].split(':')[1]}\n" in containerfile, "the data is in another folder")
        given = [value for option, value in zip(words[1:-1], words[2:]) if option == "--env"]
        settings = dict(value.split("=", 1) if "=" in value else (value, os.environ[value]) for value in given)
        check_settings(PROGRAM, FOLDER, settings)
        note(container=options["--name"])
    else:
        expect(words[:2] == ["exec", notes().get("container")], "there is no such container")
        in_container(words[2:])


def docker(words):
    expect(words[:2] == ["compose", "-f"], "not known here")
    file, words, profiles = words[2], words[3:], []
    while words[0] == "--profile":
        profiles, words = [*profiles, words[1]], words[2:]
    services = subprocess.run([VALIDATE, "compose", file, *profiles], capture_output=True, text=True)
    expect(services.returncode == 0, services.stderr)
    if words[0] == "exec":
        expect(words[1] in services.stdout.strip().split(", "), "there is no such service")
        return in_container(words[2:])
    expect(words == ["up", "--build", "--detach"], "not known here")


# ------------------------------------------------------------------------------------------------------------ Kubernetes


def kubectl(words):
    real = shutil.which("kubectl", path=REAL)
    if words[0] == "apply":
        run(VALIDATE, "kubernetes", words[words.index("--kustomize") + 1])
        return run(real, "kustomize", words[-1], stdout=(FOLDER / "manifests.yaml").open("w"))
    if "exec" in words:
        pod, separator, *command = words[words.index("exec") + 1 :]
        expect(separator == "--", "the command comes after --")
        # The first pod of a stateful set.
        found = re.search(rf"kind: StatefulSet\n.*?  name: {pod.removesuffix('-0')}\n  namespace: {notes()['namespace']}\n",
                          (FOLDER / "manifests.yaml").read_text(), re.DOTALL)
        expect(pod.endswith("-0") and found, "there is no such pod")
        return in_container(command)
    made = subprocess.run([real, *words, "--dry-run=client", "--output=json"], capture_output=True, text=True)
    expect(made.returncode == 0, made.stderr)
    made = json.loads(made.stdout)
    if made["kind"] == "Namespace":
        note(namespace=made["metadata"]["name"])
    else:
        expect(made["metadata"]["namespace"] == notes()["namespace"], "there is no such namespace")
        note(secret=made["metadata"]["name"], keys=list(made["data"]))


globals()[Path(sys.argv[0]).name](sys.argv[1:])
