"""Clients in real browsers: livekit-client in a page that fetches commands over HTTP, so that no driver is needed."""

import json
import queue
import shutil
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

from .preparation import ROOT, find
from .remote import Remote

HERE = Path(__file__).resolve().parent
SDK = ROOT / "src" / "http" / "call" / "vendor" / "livekit-client.umd.js"
FILES = {
    "/client": (HERE / "page.html", "text/html"),
    "/page.js": (HERE / "page.js", "text/javascript"),
    "/livekit-client.umd.js": (SDK, "text/javascript"),
}
# Long-poll interval in seconds, after which a page sends a new request.
POLL = 20

CHROMIUM = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--allow-loopback-in-peer-connection",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
]
FIREFOX = {
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    "media.autoplay.default": 0,
    "media.peerconnection.ice.obfuscate_host_addresses": False,
    "media.peerconnection.ice.loopback": True,
    # Otherwise it uses only the default route's address until the page has a camera.
    "permissions.default.camera": 1,
    "permissions.default.microphone": 1,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.enabled": False,
}


class Pages:
    """Serves the pages of all browsers, and transfers commands and results."""

    def __init__(self):
        self.commands = {}
        self.results = {}
        pages = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                url = urlparse(self.path)
                if url.path == "/next":
                    return self.next_command(parse_qs(url.query)["id"][0])
                file, kind = FILES.get(url.path, (None, None))
                return self.answer(200 if file else 404, file.read_bytes() if file else b"", kind or "text/plain")

            def next_command(self, client):
                try:
                    command = pages.commands[client].get(timeout=POLL)
                except queue.Empty:
                    return self.answer(204)
                return self.answer(200, json.dumps(command).encode()) if command else self.answer(410)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                pages.results[parse_qs(urlparse(self.path).query)["id"][0]].put(json.loads(body))
                return self.answer(204)

            def answer(self, status, body=b"", kind="application/json"):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A browser resets its connections when it ends.
        self.server.handle_error = lambda *_: None
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, client):
        return f"http://127.0.0.1:{self.server.server_port}/client?id={client}"

    def register(self, client, results):
        self.commands[client], self.results[client] = queue.Queue(), results


class Browser(Remote):
    """One browser process with one client, which `around` can run in another network."""

    def __init__(self, kind, pages, name, around=(), flags=()):
        super().__init__(kind, name)
        self.pages = pages
        pages.register(name, self.results)
        self.profile = tempfile.mkdtemp(prefix="conclave-clients-")
        command = [*around, *(self.chromium() if kind == "chromium" else self.firefox()), *flags]
        # The browser's own log is not needed; the client's errors come back as results.
        self.process = subprocess.Popen([*command, pages.url(name)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def chromium(self):
        return [find("chromium"), *CHROMIUM, f"--user-data-dir={self.profile}"]

    def firefox(self):
        settings = "".join(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in FIREFOX.items())
        (Path(self.profile) / "user.js").write_text(settings)
        return [find("firefox-esr"), "--headless", "--no-remote", "--profile", self.profile]

    def send(self, command):
        self.pages.commands[self.name].put(command)

    def close(self):
        self.pages.commands[self.name].put(None)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)
