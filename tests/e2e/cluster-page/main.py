"""Follows docs/cluster.md with three servers on a throw-away PostgreSQL, behind HAProxy where it is installed, and checks
the files in deploy/cluster.

    scripts/check cluster-page           everything except calls
    scripts/check cluster-page --files   the files in deploy/cluster only
    scripts/check cluster-page --calls   kills a call's server, and waits until all participants see each other on the next one

The commands on the page and in docs/postgresql.md, except for the move from a file (tests/cli), run unchanged: each block
with `<!-- run: NAME -->` above it. curl gets the addresses of node-1, node-2 and node-3, and sudo is omitted.

Needs PostgreSQL, curl 7.82 or newer and python3. The files are checked with HAProxy and, where Go is installed, with the program of
scripts/check deploy. Missing programs are named, and their parts skipped. Exits 0 only if all holds, and 77 without PostgreSQL. --calls
needs LiveKit's Python SDK, like scripts/check clients, and uses the installed browsers.
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
    # The pages contain file names relative to the root.
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
    # The SDK is needed only here.
    from . import calls

    calls.check(preparation.program())
