"""Checks that `cargo test --workspace` after `cargo run` compiles no dependency again, in seconds and without compiling anything.

    scripts/check features

Cargo compiles a dependency once for each set of its features, and tests may switch on more of them. The two commands are compared by
`cargo tree`: the crates of the program by themselves, and then with those of build scripts and macros, which may have other features. The
crates of the workspace are left out: tests have them with the feature `faults`. A feature that differs belongs to [workspace.dependencies]
in Cargo.toml, and if only a dependency of a test switches it on, to the dependencies of the root package, too.
"""

import subprocess
from collections import defaultdict

from ..support.preparation import ROOT

# Of what `cargo tree` prints of a crate of the workspace.
OWN = f" ({ROOT}"


def features(*options):
    """Returns the sets of features that each dependency is compiled with."""
    command = ["cargo", "tree", "--quiet", "--locked", "--prefix", "none", "--format", "{p}|{f}", *options]
    printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = defaultdict(set)
    for line in printed.splitlines():
        # Behind a crate that was printed before there is a mark.
        name, _, enabled = line.removesuffix(" (*)").partition("|")
        if name and OWN not in name:
            found[name].add(enabled)
    return found


def differences(first, second, is_same):
    """Yields a line for each dependency of the first command whose features are others in the second one."""
    for name, sets in sorted(first.items()):
        if not is_same(sets, second[name]):
            yield f"{name}\n  cargo run:  {shown(sets)}\n  cargo test: {shown(second[name])}"


def shown(sets):
    return " and ".join(f"[{enabled}]" for enabled in sorted(sets)) or "nothing"


def main():
    program = ("--edges", "normal,no-proc-macro")
    tests = ("--workspace", "--edges", "normal,dev,no-proc-macro")
    found = [
        *differences(features(*program), features(*tests), lambda run, test: run == test),
        *differences(features("--edges", "normal,build"), features("--workspace"), lambda run, test: run == test),
    ]
    if found:
        print("Compiled again by the tests, with other features:")
        print("\n".join(dict.fromkeys(found)))
        return 1
    print("the tests compile no dependency of the program again")
    return 0

