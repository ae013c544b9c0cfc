"""A server under a load of calls, recordings, a broadcast and an upload: every event that its metrics count occurs."""

import contextlib
import time
import urllib.error

from ..support.certificates import make_certificate
from ..support.cluster import TOKEN
from ..support.pushing import RtmpReceiver, push
from ..support.receiver import Receiver
from ..support.server import UNLIMITED, Server, free_port
from ..support.telling import wait_for

# Duration of an otherwise instant upload: long enough to be observed.
UPLOAD_SECONDS = 4
UPLOAD_ID = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
UPLOADED = "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>"
COLOR, TONE = (200, 40, 40), 440


def receiver():
    """Receives webhooks, and accepts all except the first."""
    answers = iter([500])
    return Receiver(lambda *_: (next(answers, 204), ""))


def storage():
    """An S3 storage for one multipart upload, which is slow."""

    def answer(method, path, *_):
        if method == "PUT":
            time.sleep(UPLOAD_SECONDS)
            return 200, ""
        return 200, UPLOADED if "uploadId=" in path else UPLOAD_ID

    return Receiver(answer)


class LoadedServer(Server):
    """A server with TLS and backups, and with small recordings."""

    def __init__(self, program, folder):
        certificate, key = make_certificate(folder)
        settings = UNLIMITED | {
            "CONCLAVE_TLS__CERT": str(certificate), "CONCLAVE_TLS__KEY": str(key), "CONCLAVE_ADMIN__TOKEN": TOKEN,
            "CONCLAVE_BACKUP__DIRECTORY": str(folder / "backup"), "CONCLAVE_BACKUP__EVERY": "3s",
            "CONCLAVE_WEBHOOKS__TICK": "1s", "CONCLAVE_WEBHOOKS__RETRY_DELAYS": "1s",
            "CONCLAVE_MEDIA__RTMP_LISTEN": f"127.0.0.1:{free_port()}",
            "CONCLAVE_MEDIA__RTC__TURN__SERVER": "on", "CONCLAVE_MEDIA__RTC__TURN__UDP_PORT": "0",
            "CONCLAVE_EGRESS__WIDTH": "320", "CONCLAVE_EGRESS__HEIGHT": "180", "CONCLAVE_EGRESS__FRAME_RATE": "15",
        }
        super().__init__(program, folder, settings, certificate=certificate)
        self.start()

    def have_calls(self, seconds):
        """Rooms open, participants join, publish and leave, one is muted by moderation, and rooms end."""
        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            room, number = f"room-{number}", number + 1
            self.request("POST", "/v1/rooms", {"name": room})
            sids = []
            for identity in ("alice", "bob"):
                wanted = {"room": room, "identity": identity, "name": identity, "role": "host"}
                token = self.request("POST", "/v1/tokens", wanted)["token"]
                sids.append(self.request("POST", "/sandbox/join", {"token": token})["sid"])
            self.request("POST", f"/sandbox/participants/{sids[0]}/tracks", {"kind": "audio", "source": "microphone"})
            self.request("GET", f"/v1/rooms/{room}/participants")
            self.request("POST", f"/sandbox/participants/{sids[1]}/leave", {"clean": True})
            if number % 2:
                self.request("DELETE", f"/v1/rooms/{room}")
            try:
                self.request("GET", "/v1/rooms/nowhere")
            except urllib.error.HTTPError as error:
                assert error.code == 404, error
        return number

    @contextlib.contextmanager
    def recording(self, folder):
        """Records and broadcasts an encoder meanwhile; at the end, the file is uploaded."""
        (template,) = self.request("GET", "/v1/templates")["templates"]
        bucket, viewer = storage(), RtmpReceiver(folder, "broadcast")
        config = {"type": "s3", "bucket": "calls", "endpoint": bucket.url, "access_key": "check", "secret": "a-secret-of-this-check"}
        destination = {"name": "archive", "kind": "recording", "config": config}
        self.request("POST", f"/v1/templates/{template['id']}/destinations", destination)
        self.request("POST", "/v1/rooms", {"name": "stage"})
        ingress = self.request("POST", "/v1/rooms/stage/ingress", {"input_type": "rtmp", "participant_identity": "encoder"})
        try:
            with push(ingress["url"].replace("REDACTED", ingress["stream_key"]), COLOR, TONE):
                wait_for("the encoder publishes", lambda: self.has_status("ingress", ingress["ingress_id"], "publishing"))
                wanted = {"type": "room_composite", "layout": "grid", "destination": "archive"}
                recording = self.request("POST", "/v1/rooms/stage/recordings", wanted)["egress_id"]
                broadcast = self.request("POST", "/v1/rooms/stage/broadcasts", {"urls": [viewer.url]})["egress_id"]
                wait_for("the broadcast is active", lambda: self.has_status("broadcasts", broadcast, "active"))
                yield
                for path in (f"recordings/{recording}", f"broadcasts/{broadcast}"):
                    self.request("POST", f"/v1/{path}/stop")
            wait_for("the recording is uploaded", lambda: self.has_status("recordings", recording, "complete"))
        finally:
            viewer.kill()
            bucket.stop()

    def has_status(self, kind, number, status):
        return self.request("GET", f"/v1/{kind}/{number}")["status"] == status
