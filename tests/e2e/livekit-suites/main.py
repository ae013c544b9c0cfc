"""Runs LiveKit's own test suites against Conclave with its embedded media plane, and against a livekit-server as the control.

    scripts/check livekit-suites                               all suites
    scripts/check livekit-suites --livekit-server PATH         with a livekit-server as the control, or `build` to build it from its sources
    scripts/check livekit-suites --suites python node          some suites: integration, go, python, node, load
    scripts/check livekit-suites --only 'DataPublish|Resume'   rows with matching names
    scripts/check livekit-suites --repeat 5 --json FILE        five rounds, and the table also as JSON

The integration tests are livekit-server's, with a new server for each test; the others come with LiveKit's SDKs for Go,
Python and Node.js. The load tester is our own. Sources are downloaded from the Go module proxy, PyPI and npm into a folder outside the
repository (--cache), and are changed only where they name or start their server. differences.toml lists the tests
that are left out, and rows with known differences, with reasons. A livekit-server also reads the settings in docs/livekit.md.

A suite whose programs are missing is skipped. Exits 0 if no row differs without a reason, 1 otherwise, and 77 if no suite could run.
"""

import argparse
import json
import tomllib
from pathlib import Path

from ..support import preparation
from . import sources, suites
from .gateway import Gateway
from .servers import Conclave, LiveKit
from .table import Table


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--livekit-server", metavar="PATH", help="the program of the control, or `build`")
    parser.add_argument("--suites", nargs="+", choices=suites.ALL, default=list(suites.ALL))
    parser.add_argument("--only", metavar="REGEX", help="rows whose names fit")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="rounds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--cache", type=Path, default=sources.default_cache())
    parser.add_argument("--logs", type=Path, help="the folder of the logs, which is emptied first; by default in that of the sources")
    parser.add_argument("--load-seconds", type=int, default=20, help="how long each run of the load tester takes")
    parser.add_argument("--control-only", action="store_true", help="only the control")
    return parser.parse_args()


def servers(chosen, logs):
    if not chosen.control_only:
        yield Conclave(preparation.program(), logs)
    if chosen.livekit_server:
        is_built = chosen.livekit_server == "build"
        program = sources.livekit_server(chosen.cache) if is_built else Path(chosen.livekit_server).resolve()
        sources.check_page(program)
        yield LiveKit(program, logs)


def main():
    chosen = options()
    logs = chosen.logs or chosen.cache / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for old in logs.iterdir():
        old.unlink()
    known = tomllib.loads((Path(__file__).resolve().parent / "differences.toml").read_text())
    left_out = known.get("left_out", [])
    table = Table(known.get("difference", []), left_out)
    for server in servers(chosen, logs):
        gateway = Gateway(server)
        context = suites.Context(gateway, chosen.cache, logs, chosen.only, left_out, chosen.load_seconds)
        try:
            for round_number in range(chosen.repeat):
                for suite in chosen.suites:
                    run(suite, context, table, round_number)
        finally:
            server.stop()
    table.print()
    if chosen.json:
        chosen.json.write_text(json.dumps(table.json(), indent=1) + "\n")
    if not table.rows:
        return preparation.SKIPPED
    if differs := table.differs():
        print(f"\n{len(differs)} rows differ without a reason; the logs are in {logs}")
        return 1
    return 0


def run(suite, context, table, round_number):
    kind = context.gateway.server.kind
    try:
        for result in suites.ALL[suite](context):
            table.add(suite, kind, result)
            print(f"{kind} {round_number + 1} {suite}: {result.row}: {result.outcome} {result.note}".rstrip(), flush=True)
    except sources.Missing as missing:
        table.skip(suite, str(missing))

