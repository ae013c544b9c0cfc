"""A server's settings, as environment variables."""

import json
import os
import subprocess


def environment(settings):
    """Returns this check's environment with these variables and no other server settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CONCLAVE_")} | settings


def check_settings(program, folder, settings, *arguments):
    """Validates settings with `conclave check`. Settings that depend on the machine, such as the address, are excluded."""
    command = [program, "--data", folder / "data", *arguments, "check", "--json"]
    ended = subprocess.run(command, env=environment(settings), cwd=folder, capture_output=True, text=True)
    parts = json.loads(ended.stdout)
    failed = [part for part in parts if part["part"] == "configuration" and part["verdict"] == "failure"]
    assert not failed, failed
