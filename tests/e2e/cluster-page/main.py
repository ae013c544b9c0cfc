#!/usr/bin/env python3
"""Does what docs/cluster.md says with three servers on a throw-away PostgreSQL, behind HAProxy where it is installed, and checks
the files in deploy/cluster.

    scripts/check-cluster                              builds with cargo, then checks everything
    scripts/check-cluster files                        checks the files in deploy/cluster only
    scripts/check-cluster calls                        kills the server of a call, and waits until all see each other at the next one
    CONCLAVE_BIN=path/conclave scripts/check-cluster   uses a program that is built already

The commands of the page, and those of docs/postgresql.md but for the move from a file (tests/cli), are run as they are written: each block
with `<!-- run: NAME -->` above it. curl is told where node-1, node-2 and node-3 are, and sudo is left out.

Needs PostgreSQL, curl 7.82 or newer and python3. The files are checked with HAProxy and, where Go is installed, with the program of
scripts/deploy. What is missing is named, and skipped. Exits 0 only if all holds, and 77 without PostgreSQL. `calls` needs
LiveKit's Python SDK, as scripts/check-clients does, and takes the browsers that are installed.
"""

import os
import sys
from pathlib import Path

# Nothing is written beside the sources.
sys.dont_write_bytecode = True
for folder in ("clients", "cluster-page"):
    sys.path.insert(0, str(Path(__file__).resolve().parent / folder))

import files  # noqa: E402
import page  # noqa: E402
import servers  # noqa: E402

os.chdir(Path(__file__).resolve().parent.parent)


def check_calls():
    import preparation

    preparation.in_environment()
    import calls

    calls.check(str(preparation.program()))


def main(arguments):
    if arguments != ["calls"]:
        files.check()
    if arguments == ["files"]:
        return
    if servers.postgres_programs() is None:
        print("skipped: PostgreSQL is not installed")
        sys.exit(77)
    check_calls() if arguments == ["calls"] else page.check()


try:
    main(sys.argv[1:])
except AssertionError as failure:
    sys.exit(f"check-cluster: {failure}")
