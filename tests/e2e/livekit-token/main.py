#!/usr/bin/env bash
# Verifies a room token of Conclave with an official LiveKit server SDK (livekit-api for Python, in a temporary venv).
#
#   scripts/check-livekit-token        starts `conclave dev` on free ports
#   scripts/check-livekit-token URL    uses a running server; the environment must contain VK_KEY (a project's API key),
#                                      API_KEY and API_SECRET (its media.api_key and media.api_secret)
#
# Needs bash, python3 with venv, and a package index. Removes its files at the end. Exits 0 only if all checks pass.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check livekit-api

if [ $# -eq 1 ]; then
    url=$1 vk_key=$VK_KEY api_key=$API_KEY api_secret=$API_SECRET
elif [ $# -eq 0 ]; then
    api_key=APIcheck api_secret=$(python3 -c 'import secrets; print(secrets.token_urlsafe(32))')
    export CONCLAVE_MEDIA__API_KEY=$api_key CONCLAVE_MEDIA__API_SECRET=$api_secret
    export CONCLAVE_HTTP__LISTEN=127.0.0.1:0 CONCLAVE_ADMIN__LISTEN=127.0.0.1:0
    cargo build --quiet --workspace --bins
    binary=${CARGO_TARGET_DIR:-target}/debug/conclave
    "$binary" dev --data "$work/data" >"$work/ready" 2>"$work/log" &
    server=$!
    for _ in $(seq 100); do
        [ -s "$work/ready" ] && break
        kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
        sleep 0.1
    done
    read -r url vk_key < <(python3 -c 'import json, sys; ready = json.loads(open(sys.argv[1]).readline()); print(ready["api"], ready["api_key"])' "$work/ready")
else
    sed -n '2,8p' "$0" >&2
    exit 2
fi

API_KEY=$api_key API_SECRET=$api_secret VK_KEY=$vk_key "$work/venv/bin/python" - "$url" <<'PYTHON'
import importlib.metadata
import json
import os
import secrets
import sys
import time
import urllib.request

from livekit import api

url, vk_key = sys.argv[1], os.environ["VK_KEY"]
api_key, api_secret = os.environ["API_KEY"], os.environ["API_SECRET"]


def call(path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), method="POST")
    request.add_header("Authorization", f"Bearer {vk_key}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def check(description, passes):
    print("ok  " if passes else "FAIL", description)
    if not passes:
        sys.exit(1)


print("livekit-api", importlib.metadata.version("livekit-api"))
room = "token-check-" + secrets.token_hex(4)
call("/v1/rooms", {"name": room})
token = call("/v1/tokens", {"room": room, "identity": "alice", "name": "Alice", "metadata": "{}"})
claims = api.TokenVerifier(api_key, api_secret).verify(token["token"])
check("signature, issuer and times are accepted", True)
check("identity and name", (claims.identity, claims.name) == ("alice", "Alice"))
check("metadata", claims.metadata == "{}")
check("the grant to join, and no other", claims.video.room_join and not claims.video.room_admin and not claims.video.room_create)
check("the room name with its project", claims.video.room.endswith("." + room) and claims.video.room.startswith("prj_"))
check("publish, subscribe, data", claims.video.can_publish and claims.video.can_subscribe and claims.video.can_publish_data)
config = claims.room_config
check("the timeouts of the room", config is not None and config.empty_timeout == config.departure_timeout == 330)
try:
    api.TokenVerifier(api_key, api_secret + "x").verify(token["token"])
    check("another secret is rejected", False)
except Exception as error:  # noqa: BLE001: depends on the SDK
    check(f"another secret is rejected ({type(error).__name__})", True)
PYTHON
