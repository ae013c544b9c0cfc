"""LiveKit's room tokens: JWTs signed with the secret that the suites and the server share."""

import base64
import hashlib
import hmac
import json
import re

KEY, SECRET = "APIsuites", "the-secret-of-the-suites-is-long-enough"


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def signature(signed):
    return encode(hmac.new(SECRET.encode(), signed.encode(), hashlib.sha256).digest())


def sign(claims):
    signed = ".".join(encode(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{signed}.{signature(signed)}"


def verify(token):
    """Returns a token's claims, or `None` if it is not signed with the secret."""
    signed, _, given = token.rpartition(".")
    if not signed or not hmac.compare_digest(signature(signed), given):
        return None
    return json.loads(decode(signed.split(".")[1]))


def room_name(name):
    """Returns a room's name in Conclave, whose names allow fewer characters."""
    return re.sub(r"[^a-zA-Z0-9_-]", "-", name)[:120]


def identity(name):
    return re.sub(r"[^a-zA-Z0-9_.@-]", "-", name)[:128]
