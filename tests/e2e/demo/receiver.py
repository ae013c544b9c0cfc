"""A webhook receiver for scripts/demo, which verifies both signatures of each delivery and logs one line per delivery.

Usage: receiver.py DIR. It writes its port to DIR/port and its log to DIR/log. For each delivery it reads the
endpoint's signing secret from DIR/secret and the status of its response from DIR/status. Needs only the standard library.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import threading
import time
from pathlib import Path

# Writes no bytecode beside the sources.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from e2e.support.receiver import Receiver  # noqa: E402

DIR = sys.argv[1]
TOLERANCE_SECONDS = 300


def read(name):
    with open(os.path.join(DIR, name), encoding="utf-8") as file:
        return file.read().strip()


def is_svc_signature_valid(secret, body, headers):
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, headers.get("X-Svc-Signature", ""))


def is_standard_signature_valid(secret, body, headers):
    sent_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "0")
    key = base64.b64decode(secret.removeprefix("whsec_") if hasattr(secret, "removeprefix") else secret[6:])
    signed = f"{sent_id}.{sent_at}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    fresh = abs(time.time() - int(sent_at)) <= TOLERANCE_SECONDS
    return fresh and hmac.compare_digest(expected, headers.get("webhook-signature", ""))


def answer(_method, _path, headers, body):
    secret, status = read("secret"), int(read("status"))
    event = json.loads(body)
    valid = [
        name
        for name, verify in (("svc", is_svc_signature_valid), ("standard", is_standard_signature_valid))
        if verify(secret, body, headers)
    ]
    is_type_in_header = headers.get("X-Svc-Event") == event["type"]
    line = " ".join([
        f"answered={status}",
        "signed=" + ("+".join(valid) or "none") + ("" if is_type_in_header else "!event-header"),
        f"id={headers.get('webhook-id')}",
        f"type={event['type']}",
        f"room={event.get('room', '')}",
        f"who={event.get('participant_identity', '-')}",
        f"sid={event.get('participant_sid', '-')}",
    ])
    with open(os.path.join(DIR, "log"), "a", encoding="utf-8") as log:
        log.write(line + "\n")
    return status, ""


receiver = Receiver(answer)
with open(os.path.join(DIR, "port.part"), "w", encoding="utf-8") as file:
    file.write(str(receiver.port))
os.rename(os.path.join(DIR, "port.part"), os.path.join(DIR, "port"))
threading.Event().wait()
