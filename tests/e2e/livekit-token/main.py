"""Verifies a Conclave room token with an official LiveKit server SDK (livekit-api for Python, in a temporary venv).

    scripts/check livekit-token        starts a server on free ports
    scripts/check livekit-token URL    uses a running server; the environment must contain VK_KEY (a project's API key),
                                       API_KEY and API_SECRET (its media.api_key and media.api_secret)

Needs python3 with venv, and a package index. Removes its files at the end. Exits 0 only if all checks pass.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from ..support import preparation
from ..support.server import Server, call

# Reads the token, inside the venv.
VERIFY = Path(__file__).resolve().parent / "verify.py"


def verify(folder, url, vk_key, api_key, api_secret):
    """Creates a room and a token, and verifies the token with the SDK. Returns the status."""
    venv = Path(folder) / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "livekit-api"], check=True)
    room = f"token-check-{secrets.token_hex(4)}"
    call("POST", f"{url}/v1/rooms", vk_key, {"name": room})
    wanted = {"room": room, "identity": "alice", "name": "Alice", "metadata": "{}"}
    token = call("POST", f"{url}/v1/tokens", vk_key, wanted)["token"]
    variables = os.environ | {"API_KEY": api_key, "API_SECRET": api_secret}
    return subprocess.run([venv / "bin" / "python", VERIFY, room, token], env=variables).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?", help="the API of a running server")
    url = parser.parse_args().url
    with tempfile.TemporaryDirectory(prefix="conclave-token-") as folder:
        if url:
            return verify(folder, url, *(os.environ[name] for name in ("VK_KEY", "API_KEY", "API_SECRET")))
        key, secret = "APIcheck", secrets.token_urlsafe(32)
        settings = {"CONCLAVE_MEDIA__API_KEY": key, "CONCLAVE_MEDIA__API_SECRET": secret}
        server = Server(preparation.program(), folder, settings)
        try:
            server.start()
            return verify(folder, server.ready["api"], server.ready["api_key"], key, secret)
        finally:
            server.stop()
