"""Checks comments, documents, command help and API descriptions for the habits and terms of "How to write" in CONTRIBUTING.md, with Vale.

    scripts/check prose                 prints every match, and fails if there is one
    scripts/check prose media/sfu ...   only in these files and folders

styles/ has the rules. Vale reads Markdown best, so each source file becomes a text with only its comments, each in its line. A text that
quotes a bad example stands between `<!-- vale off -->` and `<!-- vale on -->`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ..support.preparation import ROOT, need, skip, target_directory

HERE = Path(__file__).resolve().parent
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


def comments(text, start):
    """Returns the comments of a source file, each in its line; other lines are empty."""
    found = ((re.match(start, line), line) for line in text.split("\n"))
    return [line[match.end() :] if match else "" for match, line in found]


def descriptions(text):
    """Returns the summaries and descriptions of the OpenAPI description, each in its line; other lines are empty."""
    found = (re.match(r'\s*"(?:summary|description)": ("(?:[^"\\]|\\.)*"),?$', line) for line in text.split("\n"))
    return [json.loads(match[1]).replace("\n", " ") if match else "" for match in found]


def files():
    """Returns the path and the lines of each file that people read."""
    listed = subprocess.check_output(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True)
    for path in map(Path, listed.splitlines()):
        if not (ROOT / path).is_file() or GENERATED.search(str(path)):
            continue
        if path.suffix == ".md":
            yield path, (ROOT / path).read_text().split("\n")
        elif path.suffix in COMMENTS and (path.suffix or path.parts[0] in ("scripts", ".ci", "sdk")):
            yield path, comments((ROOT / path).read_text(), COMMENTS[path.suffix])
    yield Path(OPENAPI), descriptions((ROOT / OPENAPI).read_text())


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
    """Returns all matches: (path, line, rule and message)."""
    program = vale()
    texts = target_directory() / "check-prose" / "texts"
    shutil.rmtree(texts, ignore_errors=True)
    for path, lines in files():
        text = texts / f"{path}.md"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text("\n".join(lines))
    # The status only reports whether there are matches.
    found = subprocess.run([program, "--config", HERE / "vale.ini", "--output", "JSON", "."], cwd=texts, capture_output=True, text=True)
    if found.returncode not in (0, 1) or found.stderr:
        sys.exit(f"Vale failed: {found.stderr or found.stdout}")
    for file, alerts in sorted(json.loads(found.stdout).items()):
        for alert in alerts:
            yield Path(file.removesuffix(".md")), alert["Line"], f"[{alert['Check'].removeprefix('Conclave.')}] {alert['Message']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH")
    paths = parser.parse_args().paths
    found = [match for match in matches() if not paths or any(match[0].is_relative_to(path) for path in paths)]
    for path, line, message in found:
        print(f"{path}:{line}: {message}")
    print(f"{len(found)} {'match' if len(found) == 1 else 'matches'}")
    if found:
        sys.exit(1)
