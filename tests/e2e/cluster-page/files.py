"""The files in deploy/cluster: their syntax, and the existence of the names in them."""

import os
import re
import shutil
from pathlib import Path

from ..support import preparation
from ..support.cluster import fail, run

FOLDER = Path("deploy/cluster")


def skipped(what):
    print(f"skipped: {what}", flush=True)


def settings():
    """Returns the variable names of all settings."""
    section, names = "", set()
    for line in Path("config/conclave.toml").read_text().splitlines():
        if found := re.fullmatch(r"\[([a-z.]+)\]", line):
            section = found[1]
        elif found := re.match(r"#([a-z_]+) = ", line):
            names.add(f"CONCLAVE_{section}.{found[1]}".replace(".", "__").upper())
    # Documented in prose, since its default depends on the data directory.
    return names | {"CONCLAVE_ENCRYPTION__KEY_FILE"}


def check_settings():
    known = settings()
    for path in (FOLDER / "compose.yaml", FOLDER / "kubernetes" / "statefulset.yaml"):
        for name in set(re.findall(r"CONCLAVE_[A-Z_]+__[A-Z_]+", path.read_text())):
            if name not in known:
                fail(f"{path}: {name} is no setting")


def check_syntax():
    wanted = set(re.findall(r"\$\{([A-Z_]+)", (FOLDER / "compose.yaml").read_text()))
    given = set(re.findall(r"^([A-Z_]+)=", (FOLDER / ".env.example").read_text(), re.MULTILINE))
    if wanted != given:
        fail(f"compose.yaml and .env.example do not have the same variables: {wanted ^ given}")
    validate = preparation.validator()
    if validate is None:
        return skipped("the program of tests/e2e/deploy cannot be built")
    run(validate, "compose", FOLDER / "compose.yaml", env={**os.environ, **dict.fromkeys(wanted, "192.0.2.1")})
    run(validate, "kubernetes", FOLDER / "kubernetes")


def check_balancer():
    if shutil.which("haproxy") is None:
        return skipped("haproxy is not installed")
    run("haproxy", "-c", "-q", "-f", FOLDER / "haproxy.cfg")


def check():
    for part in (check_settings, check_syntax, check_balancer):
        part()
    print("the files in deploy/cluster are right", flush=True)
