"""Reads a room token with LiveKit's SDK: verify.py ROOM TOKEN, with API_KEY and API_SECRET in the environment. See main.py."""

import importlib.metadata
import os
import sys

from livekit import api


def check(description, passes):
    print("ok  " if passes else "FAIL", description)
    if not passes:
        sys.exit(1)


print("livekit-api", importlib.metadata.version("livekit-api"))
room, token = sys.argv[1:]
api_key, api_secret = os.environ["API_KEY"], os.environ["API_SECRET"]
claims = api.TokenVerifier(api_key, api_secret).verify(token)
check("signature, issuer and times are accepted", True)
check("identity and name", (claims.identity, claims.name) == ("alice", "Alice"))
check("metadata", claims.metadata == "{}")
check("the grant to join, and no other", claims.video.room_join and not claims.video.room_admin and not claims.video.room_create)
check("the room name with its project", claims.video.room.endswith("." + room) and claims.video.room.startswith("prj_"))
check("publish, subscribe, data", claims.video.can_publish and claims.video.can_subscribe and claims.video.can_publish_data)
config = claims.room_config
check("the timeouts of the room", config is not None and config.empty_timeout == config.departure_timeout == 330)
try:
    api.TokenVerifier(api_key, api_secret + "x").verify(token)
    check("another secret is rejected", False)
except Exception as error:  # noqa: BLE001: depends on the SDK
    check(f"another secret is rejected ({type(error).__name__})", True)
