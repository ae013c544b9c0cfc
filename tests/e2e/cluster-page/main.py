"""Does what docs/cluster.md says with three servers on a throw-away PostgreSQL, behind HAProxy where it is installed, and checks
the files in deploy/cluster.

    scripts/check cluster-page           checks everything but calls
    scripts/check cluster-page --files   checks the files in deploy/cluster only
    scripts/check cluster-page --calls   kills the server of a call, and waits until all see each other at the next one

The commands of the page, and those of docs/postgresql.md but for the move from a file (tests/cli), are run as they are written: each block
with `<!-- run: NAME -->` above it. curl is told where node-1, node-2 and node-3 are, and sudo is left out.

Needs PostgreSQL, curl 7.82 or newer and python3. The files are checked with HAProxy and, where Go is installed, with the program of
scripts/check deploy. What is missing is named, and skipped. Exits 0 only if all holds, and 77 without PostgreSQL. --calls needs
LiveKit's Python SDK, as scripts/check clients does, and takes the browsers that are installed.
"""

import argparse
import os

from ..support import preparation
from . import files, page


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="only the files in deploy/cluster")
    parser.add_argument("--calls", action="store_true", help="only the call whose server is killed")
    chosen = parser.parse_args()
    # The pages name files from there.
    os.chdir(preparation.ROOT)
    try:
        if not chosen.calls:
            files.check()
        if chosen.files:
            return 0
        if preparation.postgres_programs() is None:
            preparation.skip("PostgreSQL is not installed")
        check_calls() if chosen.calls else page.check()
    except AssertionError as failure:
        print(f"cluster-page: {failure}")
        return 1
    return 0


def check_calls():
    preparation.in_environment("check", "cluster-page", ["--calls"])
    # It needs the SDK.
    from . import calls

    calls.check(preparation.program())
