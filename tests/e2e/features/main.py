"""Checks that `cargo test --workspace` after `cargo run` compiles no dependency again, in seconds and without compiling anything.

    scripts/check features

Cargo compiles a dependency once for each set of its features, and tests may enable more of them. The two commands are compared by
`cargo tree`: first the program's crates alone, then with the crates of build scripts and macros, which may have other features. The
workspace's own crates are excluded: tests enable their feature `faults`. Add a differing feature to [workspace.dependencies] in
Cargo.toml, and if only a test's dependency enables it, also to the dependencies of the root package.
"""

import subprocess
from collections import defaultdict

from ..support.preparation import ROOT

# The mark of a workspace crate in the output of `cargo tree`.
OWN = f" ({ROOT}"


def features(*options):
    """Returns the sets of features with which each dependency is compiled."""
    command = ["cargo", "tree", "--quiet", "--locked", "--prefix", "none", "--format", "{p}|{f}", *options]
    printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = defaultdict(set)
    for line in printed.splitlines():
        # A repeated crate has a mark.
        name, _, enabled = line.removesuffix(" (*)").partition("|")
        if name and OWN not in name:
            found[name].add(enabled)
    return found


def differences(first, second, is_same):
    """Yields a line for each dependency of the first command whose features differ in the second command."""
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

