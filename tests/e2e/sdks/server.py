"""A real server for scripts/check sdks, and a proxy in front of it with faults that the SDKs must handle.

The proxy forwards requests to the API listener, and requests below `/sandbox` to the admin listener, so that its address remains
the same when the server is killed and restarted. A scenario requests faults from it:

    POST /faults {"match": "POST /v1/rooms", "answer": 503, "retry_after": 1, "times": 2}   responds itself
    POST /faults {"match": "POST /v1/rooms", "answer": "cut", "times": 1}                   breaks the connection after the server
                                                                                            has executed the request
    POST /kill                                                                              kills the server, and restarts it
                                                                                            one second later
    POST /recording {"path": "prj_1/a.mp4", "text": "…"}                                    writes a simulated recording's file
"""

import http.client
import json
import re
import socket
import sys
import threading
import urllib.parse
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ..support.server import Server

SETTINGS = {"CONCLAVE_WEBHOOKS__TICK": "200ms"}
RESTART_AFTER = 1.0
# Headers of a single connection (hop-by-hop).
OWN_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


class Backend(Server):
    """A server whose API key survives a restart, at any addresses."""

    def __init__(self, program: Path, folder: Path):
        super().__init__(program, folder, SETTINGS)
        self.start()
        self.project, self.key = self.ready["project_id"], self.ready["api_key"]

    def address(self, listener: str) -> str:
        """Returns the address of a listener, `api` or `admin`."""
        return self.ready[listener].removeprefix("http://")

    def send_test_event(self, endpoint: str):
        """Presses the button "Send test event" of a webhook endpoint in the console."""
        admin = self.ready["admin"]
        with urllib.request.urlopen(f"{admin}/projects", timeout=20) as page:
            [token, *_] = re.findall(r'name="csrf" value="([^"]+)"', page.read().decode())
        path = f"/projects/{self.project}/webhooks/{endpoint}/test"
        form = urllib.parse.urlencode({"csrf": token}).encode()
        urllib.request.urlopen(f"{admin}{path}", data=form, timeout=20).close()


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    # A scenario sends many requests at once.
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """Ignores departed clients: an abandoned call closes its connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Proxy:
    """The proxy, with a record of its requests."""

    def __init__(self, server: Backend):
        self.server = server
        self.lock = threading.Lock()
        self.faults = []
        self.seen = []
        self.listener = Listener(("127.0.0.1", 0), handler(self))
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.listener.server_address[1]}"

    def take_fault(self, request: str):
        with self.lock:
            fault = next((fault for fault in self.faults if fault["times"] > 0 and request == fault["match"]), None)
            if fault:
                fault["times"] -= 1
            return fault

    def note(self, request: str, key, outcome):
        with self.lock:
            self.seen.append((request, key, outcome))

    def kill(self):
        self.server.kill()
        threading.Timer(RESTART_AFTER, self.server.start).start()

    def write_recording(self, path: str, text: str):
        file = self.server.data / "recordings" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def problems(self):
        """Returns the requests that a complete scenario should have sent, but has not."""
        outcomes = Counter(outcome for _, _, outcome in self.seen)
        missing = [f"no response {wanted}" for wanted in (429, 503, "cut", "refused") if not outcomes[wanted]]
        for request, key, outcome in self.seen:
            if outcome in (429, 503, "cut", "refused") and request.startswith("POST /v1/rooms ") and key is None:
                missing.append(f"no key in {request}")
        # A cut request was executed; the server must have recognized the retry as the same call.
        for request, key, outcome in self.seen:
            if outcome == "cut" and key and ((request, key, 201) not in self.seen):
                missing.append(f"{request} was not repeated with the same key")
        return missing


def handler(proxy: Proxy):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/faults":
                proxy.faults.append(json.loads(body))
                return self.answer(204)
            if self.path == "/kill":
                proxy.kill()
                return self.answer(204)
            if self.path == "/recording":
                proxy.write_recording(**json.loads(body))
                return self.answer(204)
            request, key = f"{self.command} {self.path}", self.headers.get("Idempotency-Key")
            fault = proxy.take_fault(request)
            outcome = fault["answer"] if fault else None
            if outcome in (None, "cut"):
                outcome = self.forward(body, outcome == "cut")
            else:
                self.answer(outcome, {"Retry-After": str(fault["retry_after"])}, refusal(outcome))
            proxy.note(request, key, outcome)
            return None

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request  # noqa: N815

        def forward(self, body, cut):
            host = proxy.server.address("admin" if self.path.startswith("/sandbox") else "api")
            headers = {name: value for name, value in self.headers.items() if name.lower() not in OWN_HEADERS}
            try:
                connection = http.client.HTTPConnection(host, timeout=30)
                connection.request(self.command, self.path, body or None, headers)
                response = connection.getresponse()
                content = response.read()
                connection.close()
            except OSError:
                return self.hang_up("refused")
            if cut:
                return self.hang_up("cut")
            headers = {name: value for name, value in response.getheaders() if name.lower() not in OWN_HEADERS}
            self.answer(response.status, headers, content)
            return response.status

        def hang_up(self, outcome):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return outcome

        def answer(self, status, headers=None, content=b""):
            self.send_response_only(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Logs nothing: requests are recorded in `proxy.seen`."""

    return Handler


def refusal(status):
    code = {429: "rate_limited", 503: "media_unavailable"}[status]
    return json.dumps({"error": {"code": code, "message": "by order of the test"}}).encode()
