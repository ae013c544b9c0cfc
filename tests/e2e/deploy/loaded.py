"""A server under a load of calls, recordings, a broadcast and an upload: whatever its metrics count has happened."""

import contextlib
import http.server
import json
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

from certificates import make_certificate
from deployment import free_port
from pushing import Receiver, push
from servers import TOKEN
from settings import environment
from telling import wait_for

# How long an upload takes that would be over at once: long enough to be seen.
UPLOAD_SECONDS = 4
UPLOAD_ID = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
UPLOADED = "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>"
COLOR, TONE = (200, 40, 40), 440


class Listener:
    """An HTTP server that answers a request by its method and path with a status and a body."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                status, body = answer(self.command, self.path)
                self.send_response(status)
                self.send_header("etag", '"1"')
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_PUT = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def receiver():
    """Receives webhooks, and accepts all but the first."""
    answers = iter([500])
    return Listener(lambda *_: (next(answers, 204), ""))


def storage():
    """An S3 storage for one upload in parts, which is slow."""

    def answer(method, path):
        if method == "PUT":
            time.sleep(UPLOAD_SECONDS)
            return 200, ""
        return 200, UPLOADED if "uploadId=" in path else UPLOAD_ID

    return Listener(answer)


class Server:
    """`conclave dev` with TLS and backups. Its recordings are small."""

    def __init__(self, program, folder):
        certificate, key = make_certificate(folder)
        settings = {
            "CONCLAVE_TLS__CERT": str(certificate), "CONCLAVE_TLS__KEY": str(key), "CONCLAVE_ADMIN__TOKEN": TOKEN,
            "CONCLAVE_BACKUP__DIRECTORY": str(folder / "backup"), "CONCLAVE_BACKUP__EVERY": "3s",
            "CONCLAVE_WEBHOOKS__TICK": "1s", "CONCLAVE_WEBHOOKS__RETRY_DELAYS": "1s",
            "CONCLAVE_MEDIA__RTMP_LISTEN": f"127.0.0.1:{free_port()}",
            "CONCLAVE_MEDIA__RTC__TURN__SERVER": "on", "CONCLAVE_MEDIA__RTC__TURN__UDP_PORT": "0",
            "CONCLAVE_EGRESS__WIDTH": "320", "CONCLAVE_EGRESS__HEIGHT": "180", "CONCLAVE_EGRESS__FRAME_RATE": "15",
            "CONCLAVE_LIMITS__REQUESTS_PER_SECOND": "100000", "CONCLAVE_LIMITS__BURST": "100000", "RUST_LOG": "warn",
        }
        command = [program, "--data", folder / "data", "dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        with (folder / "conclave.log").open("w") as log:
            self.process = subprocess.Popen(
                command, env=environment(settings), stdout=subprocess.PIPE, stderr=log, text=True
            )
        ready = self.process.stdout.readline()
        assert ready, f"the server did not start: {(folder / 'conclave.log').read_text()}"
        self.ready = json.loads(ready)
        self.context = ssl.create_default_context(cafile=certificate)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def call(self, method, path, body=None):
        """Calls the API, or the admin listener for what is there, and returns the body of the response."""
        is_api = path.startswith("/v1/")
        port = self.ready["api"].rsplit(":", 1)[1]
        base = f"https://localhost:{port}" if is_api else self.ready["admin"]
        request = urllib.request.Request(f"{base}{path}", method=method)
        request.add_header("authorization", f"Bearer {self.ready['api_key'] if is_api else TOKEN}")
        if body is not None:
            request.add_header("content-type", "application/json")
            request.data = json.dumps(body).encode()
        with urllib.request.urlopen(request, timeout=20, context=self.context if is_api else None) as response:
            text = response.read()
        return json.loads(text) if text else None

    def have_calls(self, seconds):
        """Rooms open, participants join, publish and leave, one is muted by moderation, and rooms end."""
        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            room, number = f"room-{number}", number + 1
            self.call("POST", "/v1/rooms", {"name": room})
            sids = []
            for identity in ("alice", "bob"):
                wanted = {"room": room, "identity": identity, "name": identity, "role": "host"}
                token = self.call("POST", "/v1/tokens", wanted)["token"]
                sids.append(self.call("POST", "/sandbox/join", {"token": token})["sid"])
            self.call("POST", f"/sandbox/participants/{sids[0]}/tracks", {"kind": "audio", "source": "microphone"})
            self.call("GET", f"/v1/rooms/{room}/participants")
            self.call("POST", f"/sandbox/participants/{sids[1]}/leave", {"clean": True})
            if number % 2:
                self.call("DELETE", f"/v1/rooms/{room}")
            try:
                self.call("GET", "/v1/rooms/nowhere")
            except urllib.error.HTTPError as error:
                assert error.code == 404, error
        return number

    @contextlib.contextmanager
    def recording(self, folder):
        """An encoder is recorded and broadcast meanwhile; at the end, the file is uploaded."""
        (template,) = self.call("GET", "/v1/templates")["templates"]
        bucket, viewer = storage(), Receiver(folder, "broadcast")
        config = {"type": "s3", "bucket": "calls", "endpoint": bucket.url, "access_key": "check", "secret": "a-secret-of-this-check"}
        destination = {"name": "archive", "kind": "recording", "config": config}
        self.call("POST", f"/v1/templates/{template['id']}/destinations", destination)
        self.call("POST", "/v1/rooms", {"name": "stage"})
        ingress = self.call("POST", "/v1/rooms/stage/ingress", {"input_type": "rtmp", "participant_identity": "encoder"})
        try:
            with push(ingress["url"].replace("REDACTED", ingress["stream_key"]), COLOR, TONE):
                wait_for("the encoder publishes", lambda: self.has_status("ingress", ingress["ingress_id"], "publishing"))
                wanted = {"type": "room_composite", "layout": "grid", "destination": "archive"}
                recording = self.call("POST", "/v1/rooms/stage/recordings", wanted)["egress_id"]
                broadcast = self.call("POST", "/v1/rooms/stage/broadcasts", {"urls": [viewer.url]})["egress_id"]
                wait_for("the broadcast is active", lambda: self.has_status("broadcasts", broadcast, "active"))
                yield
                for path in (f"recordings/{recording}", f"broadcasts/{broadcast}"):
                    self.call("POST", f"/v1/{path}/stop")
            wait_for("the recording is uploaded", lambda: self.has_status("recordings", recording, "complete"))
        finally:
            viewer.kill()
            bucket.stop()

    def has_status(self, kind, number, status):
        return self.call("GET", f"/v1/{kind}/{number}")["status"] == status
