"""Checks comments, documents, command help and API descriptions for the habits and terms of "How to write" in CONTRIBUTING.md, with Vale.

    scripts/check prose                    compares the matches of each rule in each area with the baseline
    scripts/check prose --list             prints every match
    scripts/check prose --list media/sfu   prints the matches in an area, or in files below a path
    scripts/check prose --update           lowers the baseline to the current counts; it adds areas and rules, and raises no number

styles/ has the rules. Vale reads Markdown best, so each source file becomes a text with only its comments, each in its line.
baseline.toml has, for each area, how many matches of a rule are left from before the rules existed. A new match fails the check.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from ..support.preparation import ROOT, need, skip, target_directory

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "baseline.toml"
OPENAPI = "tests/data/openapi.json"
# Later versions need a newer Go.
VALE = "3.22.0"
# Files that a program writes, and other people's.
GENERATED = re.compile(r"_generated|/generated/|api\.gen|/vendor/|node_modules|tests/data/|docs/api\.md|licenses|^tests/promises\.md|^tests/e2e/prose/")
# The start of a comment that is alone in its line.
COMMENTS = {
    ".rs": r"\s*//[/!]?(?: |$)",
    **dict.fromkeys((".py", ".sh", ".toml", ""), r"\s*#(?: |$)"),
    **dict.fromkeys((".js", ".mjs", ".ts", ".tsx", ".go"), r"\s*//(?: |$)"),
}
# Areas of Rust sources by their folder; the first that fits counts.
FOLDERS = ("src", "actors", "db", "media/egress", "media/sfu", "media/turn", "media", "model", "outbound")
def area_of(path):
    """Returns the area in which the matches in a file are counted."""
    if path.suffix == ".md" or path.parts[0] in ("config", "docs", "deploy"):
        return "documentation"
    if path.parts[0] == "sdk":
        return "sdk"
    if path.is_relative_to("src/cli"):
        return "help"
    if "tests" in path.parts or path.stem == "tests" or path.suffix != ".rs":
        return "tests"
    return next((folder for folder in FOLDERS if path.is_relative_to(folder)), "tests")


def comments(text, start):
    """Returns the comments of a source file, each in its line; other lines are empty."""
    found = ((re.match(start, line), line) for line in text.split("\n"))
    return [line[match.end() :] if match else "" for match, line in found]


def descriptions(text):
    """Returns the summaries and descriptions of the OpenAPI description, each in its line; other lines are empty."""
    found = (re.match(r'\s*"(?:summary|description)": ("(?:[^"\\]|\\.)*"),?$', line) for line in text.split("\n"))
    return [json.loads(match[1]).replace("\n", " ") if match else "" for match in found]


def files():
    """Returns the path, the area and the lines of each file that people read."""
    listed = subprocess.check_output(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True)
    for path in map(Path, listed.splitlines()):
        if not (ROOT / path).is_file() or GENERATED.search(str(path)):
            continue
        if path.suffix == ".md":
            yield path, area_of(path), (ROOT / path).read_text().split("\n")
        elif path.suffix in COMMENTS and (path.suffix or path.parts[0] in ("scripts", ".ci", "sdk")):
            yield path, area_of(path), comments((ROOT / path).read_text(), COMMENTS[path.suffix])
    yield Path(OPENAPI), "api", descriptions((ROOT / OPENAPI).read_text())


def vale():
    """Returns the path of Vale, which is installed if it is missing."""
    need("go")
    program = target_directory() / "check-prose" / f"vale-{VALE}" / "vale"
    if not program.exists():
        command = ["go", "install", f"github.com/vale-cli/vale/v3/cmd/vale@v{VALE}"]
        if subprocess.run(command, cwd=HERE, env=os.environ | {"GOBIN": str(program.parent)}).returncode:
            skip(f"Vale {VALE} cannot be installed")
    return program


def matches():
    """Returns all matches: (area, path, line, rule, message)."""
    program = vale()
    texts = target_directory() / "check-prose" / "texts"
    shutil.rmtree(texts, ignore_errors=True)
    areas = {}
    for path, area, lines in files():
        text = texts / f"{path}.md"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text("\n".join(lines))
        areas[str(path)] = area
    # The status only reports whether there are matches.
    found = subprocess.run([program, "--config", HERE / "vale.ini", "--output", "JSON", "."], cwd=texts, capture_output=True, text=True)
    if found.returncode not in (0, 1) or found.stderr:
        sys.exit(f"Vale failed: {found.stderr or found.stdout}")
    for file, alerts in sorted(json.loads(found.stdout).items()):
        path = file.removesuffix(".md")
        for alert in alerts:
            yield areas[path], Path(path), alert["Line"], alert["Check"].removeprefix("Conclave."), alert["Message"]


def write(counts):
    lines = ["# Matches that are left, by area and rule: see main.py. `scripts/check prose --update` lowers these numbers."]
    for area in sorted({area for area, _ in counts}):
        lines += ["", f'["{area}"]']
        lines += [f"{rule} = {count}" for (of, rule), count in sorted(counts.items()) if of == area and count]
    BASELINE.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", nargs="?", const="", metavar="AREA")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    found = list(matches())
    if arguments.list is not None:
        for area, path, number, name, message in found:
            if arguments.list in ("", area) or path.is_relative_to(arguments.list):
                print(f"{path}:{number}: [{name}] {message}")
        return
    counts = Counter((area, name) for area, _, _, name, _ in found)
    known = tomllib.loads(BASELINE.read_text())
    limits = Counter({(area, name): count for area, each in known.items() for name, count in each.items()})
    if arguments.update:
        old = {name for _, name in limits}
        added = {key: count for key, count in counts.items() if key[0] not in known or key[1] not in old}
        limits = Counter({key: min(counts[key], limit) for key, limit in limits.items()} | added)
        write(limits)
    risen = sorted(key for key in counts if counts[key] > limits[key])
    for area, name in risen:
        print(f"{area}: {counts[area, name]} matches of {name}, and the baseline has {limits[area, name]}: scripts/check prose --list {area}")
    if fallen := [key for key in limits if counts[key] < limits[key]]:
        print(f"{len(fallen)} numbers of the baseline can be lowered: scripts/check prose --update")
    print(f"{sum(counts.values())} matches, {sum(limits.values())} in the baseline")
    if risen:
        sys.exit(1)
