"""The settings of a server, as the variables of its environment."""

import json
import os
import subprocess


def environment(settings):
    """The environment of this check with these variables and no other settings of a server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CONCLAVE_")} | settings


def check_settings(program, folder, settings, *arguments):
    """Lets `conclave check` read settings. What is not on this machine, such as the address, is not checked."""
    command = [program, "--data", folder / "data", *arguments, "check", "--json"]
    ended = subprocess.run(command, env=environment(settings), cwd=folder, capture_output=True, text=True)
    parts = json.loads(ended.stdout)
    failed = [part for part in parts if part["part"] == "configuration" and part["verdict"] == "failure"]
    assert not failed, failed
