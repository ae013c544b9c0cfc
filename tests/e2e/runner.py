"""Runs the checks and the benchmarks that checks.toml lists, for scripts/check and scripts/bench.

A check is a folder with a `main.py`, `main.mjs` or `main.sh`, or a program of the workspace. Status 0 means passed, and 77 skipped,
after a line with the missing program.
"""

import ast
import importlib
import itertools
import os
import re
import resource
import shutil
import subprocess
import sys
import textwrap
import time
import tomllib
from pathlib import Path

from .support import preparation
from .support.preparation import ROOT, SKIPPED

FOLDER = Path(__file__).resolve().parent
TABLE = tomllib.loads((FOLDER / "checks.toml").read_text())
WIDTH = 120


def usage(verb):
    return f"""usage: scripts/{verb} NAME...               runs some, one after the other
       scripts/{verb} NAME [--] ARGUMENT...  runs one with arguments; NAME --help lists them
       scripts/{verb} --list                 what each one does, the time it takes, and what it needs
       scripts/{verb} --packages NAME...     the programs that they need or use, with their packages of Debian: PROGRAM=PACKAGE

CONCLAVE_BIN=path/conclave names a program that is built already."""


def main(verb):
    known, words = TABLE[verb], sys.argv[1:]
    if words == ["--list"]:
        return print("\n".join(described(name, known[name]) for name in known))
    if words[:1] == ["--packages"]:
        return print("\n".join(packages(known[name] for name in names(verb, words[1:]))))
    if words[:1] in ([], ["--help"], ["-h"]):
        print(usage(verb))
        sys.exit(0 if words else 2)
    count = next((at for at, word in enumerate(words) if word not in known), len(words))
    chosen, arguments = words[:count], words[count:]
    if not chosen:
        names(verb, arguments[:1])
    if arguments and len(chosen) > 1:
        sys.exit(f"{arguments[0]}: no {verb} has that name, and arguments are for one alone: scripts/{verb} {chosen[0]} -- ...")
    if len(chosen) == 1:
        return run(verb, chosen[0], arguments[1:] if arguments[:1] == ["--"] else arguments)
    return sys.exit(run_all(verb, chosen))


def names(verb, words):
    for word in words:
        if word not in TABLE[verb]:
            print(f"there is no {verb} {word}, but {', '.join(TABLE[verb])}", file=sys.stderr)
            sys.exit(2)
    return words


# ------------------------------------------------------------------------------------------------------------------ list


def described(name, entry):
    indent = " " * 18
    lines = textwrap.wrap(f"{name:<16}  {entry['about']}", WIDTH, subsequent_indent=indent)
    needs = entry.get("needs", []) + ["LiveKit's Python SDK"] * entry.get("sdk", False)
    more = [entry["takes"]]
    if profile := entry.get("profile"):
        more[0] += f" after a build with the profile {profile}"
    more += [f"needs {', '.join(needs)}"] if needs else []
    more += [f"uses {', '.join(entry['uses'])}"] if entry.get("uses") else []
    more += [entry["note"]] if "note" in entry else []
    return "\n".join([*lines, *textwrap.wrap("; ".join(more), WIDTH, initial_indent=indent, subsequent_indent=indent)])


def packages(entries):
    programs = [program for entry in entries for program in entry.get("needs", []) + entry.get("uses", [])]
    return [f"{program}={TABLE['packages'][program]}" for program in dict.fromkeys(programs) if program in TABLE["packages"]]


# ------------------------------------------------------------------------------------------------------------------- run


def run_all(verb, chosen):
    """Runs checks one after the other, and prints a table of them. Returns the status."""
    rows = []
    for name in chosen:
        print(f"\n=== {name}", flush=True)
        begun = time.monotonic()
        status = subprocess.run([sys.executable, ROOT / "scripts" / verb, name], stdin=subprocess.DEVNULL).returncode
        rows.append((name, status, time.monotonic() - begun))
    print()
    for name, status, seconds in rows:
        print(f"{seconds:6.0f} s  {'passed' if status == 0 else 'skipped' if status == SKIPPED else f'FAILED ({status})':<12}  {name}")
    failed = [status for _, status, _ in rows if status not in (0, SKIPPED)]
    return 1 if failed else SKIPPED if all(status == SKIPPED for _, status, _ in rows) else 0


def run(verb, name, arguments):
    """Runs a check in place of this process."""
    entry = TABLE[verb][name]
    if asks_for_help(arguments) and (text := help_of(name, entry)):
        return print(text)
    preparation.need(*entry.get("needs", []))
    if "program" in entry:
        return run_program(entry, arguments)
    if (FOLDER / name / "main.sh").exists():
        return execute(["bash", FOLDER / name / "main.sh", *arguments])
    if (FOLDER / name / "main.mjs").exists():
        os.environ |= preparation.for_browsers()
        os.chdir(ROOT)
        return execute(["node", FOLDER / name / "main.mjs", *arguments])
    if entry.get("sdk"):
        preparation.in_environment(verb, name, arguments)
    # The program name in argparse's messages.
    sys.argv = [f"scripts/{verb} {name}", *arguments]
    return sys.exit(importlib.import_module(f"e2e.{name}.main").main())


def asks_for_help(arguments):
    return "--help" in arguments or "-h" in arguments


def help_of(name, entry):
    """Returns the description in a check's sources; an empty text if the check prints its own help."""
    if "program" in entry:
        return None
    file = next(path for path in (FOLDER / name).glob("main.*"))
    text = file.read_text()
    if file.suffix == ".py":
        return None if "argparse" in text else ast.get_docstring(ast.parse(text))
    lines = text.removeprefix("#!/usr/bin/env bash\n").splitlines()
    comment = itertools.takewhile(lambda line: line.startswith(("#", "//")), lines)
    return "\n".join(re.sub("^(#|//) ?", "", line) for line in comment)


def run_program(entry, arguments):
    """Runs a program of the workspace, built with the entry's profile like the server under test."""
    os.chdir(ROOT)
    # Help needs no optimized build, which takes minutes.
    profile = "dev" if asks_for_help(arguments) else entry["profile"]
    subprocess.run(["cargo", "build", "--profile", profile, "--quiet", "--workspace", "--bins"], check=True)
    folder = preparation.target_directory() / ("debug" if profile == "dev" else profile)
    words = entry["program"].split()
    report = ["--report", "docs"] if "--report" in arguments and "{report}" in words else []
    commit = measured_commit(ROOT)
    rest = [word for word in arguments if not report or word != "--report"]
    command = [folder / words[0]]
    for word in words[1:]:
        command += report if word == "{report}" else [word.format(conclave=folder / "conclave", commit=commit)]
    # Each client of a call has three sockets, and there are many clients.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    execute([*command, *rest])


def measured_commit(folder):
    """Returns the checkout's commit, shortened, with `-dirty` if a tracked file differs. The files of a report do not count: `media --report`
    follows `server --report`, which has written them."""

    def git(*words):
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)

    commit = git("describe", "--always", "--abbrev=8", "--exclude=*").stdout.strip()
    report = [":(exclude)docs/performance.*", ":(exclude,glob)docs/*.svg"]
    is_dirty = git("diff", "--quiet", "HEAD", "--", ".", *report).returncode == 1
    return f"{commit}-dirty" if is_dirty else commit or "unknown"


def execute(command):
    sys.stdout.flush()
    program = shutil.which(command[0]) or command[0]
    os.execv(program, [str(word) for word in command])
