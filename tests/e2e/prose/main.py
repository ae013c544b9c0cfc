"""Checks comments, documents, command help and API descriptions for the habits and terms of "How to write" in CONTRIBUTING.md.

    scripts/check prose                    compares the matches of each rule in each area with the baseline
    scripts/check prose --list             prints every match
    scripts/check prose --list media/sfu   prints the matches in an area, or in files below a path
    scripts/check prose --update           lowers the baseline to the current counts; it adds areas and rules, and raises no number

rules.toml has the rules. baseline.toml has, for each area, how many matches of a rule are left from before the rules existed. A new match
fails the check; so does a rule that misses its example.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from ..support.preparation import ROOT

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "baseline.toml"
OPENAPI = "tests/data/openapi.json"
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
# Where a text starts that is not the continuation of the line before.
STARTS = re.compile(r"\s*(?:[-*] |\d+\. |#|\||>|$)")


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


def paragraphs(lines, joins=True):
    """Returns the first line and the text of each paragraph, list item and row, without code."""
    is_code, first, text = False, 0, []
    for number, line in enumerate([*lines, ""], 1):
        fence = line.lstrip().startswith("```")
        if is_code or fence or not joins or STARTS.match(line):
            if text:
                yield first, re.sub(r"`[^`]*`", "`…`", " ".join(text))
            first, text = number, []
        is_code ^= fence
        if line.strip() and not is_code and not fence:
            text.append(line.strip().lstrip("#>-* |").strip())


def compiled(rules):
    return {name: re.compile(rule["pattern"], 0 if rule.get("case") else re.IGNORECASE) for name, rule in rules.items()}


def matches(rules):
    """Returns all matches: (area, path, line of the paragraph, rule, text)."""
    patterns = compiled(rules)
    for path, area, lines in files():
        for number, text in paragraphs(lines, joins=area != "api"):
            for name, pattern in patterns.items():
                for found in pattern.finditer(text):
                    yield area, path, number, name, found[0]


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
    rules = tomllib.loads((HERE / "rules.toml").read_text())
    patterns = compiled(rules)
    for name, rule in rules.items():
        if [other for other, pattern in patterns.items() if pattern.search(rule["example"])] != [name]:
            sys.exit(f"the example of {name} has to match that rule alone")
    found = list(matches(rules))
    if arguments.list is not None:
        for area, path, number, name, text in found:
            if arguments.list in ("", area) or path.is_relative_to(arguments.list):
                print(f"{path}:{number}: [{name}] {text!r}: {rules[name]['message']}")
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
