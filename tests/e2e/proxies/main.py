"""Runs nginx, Caddy and Traefik with the configurations of deploy/proxies in front of Conclave, and sends requests through them.

    scripts/check proxies          all installed proxies
    scripts/check proxies caddy    one proxy

Requests come from other addresses of the loopback network, so that the server must learn them from the proxy. The participants are two
clients of LiveKit's Python SDK. No traffic leaves the machine. Needs nginx or Caddy, curl, openssl and ffmpeg (Debian: nginx, caddy, curl,
openssl, ffmpeg), and Traefik for its part, which Debian does not have; the SDK is shared with scripts/check clients. Exits 0 only if
everything held, and 77 if there is no proxy, or something else is missing. A missing proxy is named as not checked.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from ..support import preparation
from ..support.certificates import make_certificate
from ..support.native import Native
from ..support.server import CallServer, free_port
from ..support.telling import Telling, wait_for
from ..support.watching import wait_for_video
from . import proxies

# A client address on this machine. The proxy itself is at 127.0.0.1.
CLIENT = "127.0.0.7"
# Number of exchanges that a client can make at once (limits.exchange_burst).
BURST = 5
# A download that takes longer than the proxies' default timeouts, in bytes and bytes per second.
SLOW_SIZE, SLOW_RATE = 280_000_000, 4_000_000
# Offers one audio section. Its address is not served, so the session never connects.
OFFER = """v=0
o=- 1 1 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0
m=audio 9 UDP/TLS/RTP/SAVPF 111
c=IN IP4 0.0.0.0
a=mid:0
a=sendonly
a=rtcp-mux
a=rtpmap:111 opus/48000/2
a=ice-ufrag:abcd
a=ice-pwd:abcdefghijklmnopqrstuvwx
a=fingerprint:sha-256 {}
a=setup:actpass
a=ssrc:1 cname:a
""".format(":".join(["AB"] * 32)).replace("\n", "\r\n")


class Settings:
    """The settings in docs/reverse-proxies.md, with a proxy's port."""

    def __init__(self, https):
        self.https = https

    def settings(self):
        return {
            "CONCLAVE_HTTP__TRUSTED_PROXIES": "127.0.0.1", "CONCLAVE_MEDIA__PUBLIC_URL": f"wss://localhost:{self.https}",
            "CONCLAVE_EGRESS__MAX_COMPOSITES": "1",
        }


class Response:
    """A response from curl."""

    def __init__(self, head, body, written):
        self.body = body
        # The last head is the response's, after the head of a 100.
        lines = head.replace("\r", "").strip().split("\n\n")[-1].splitlines()
        self.headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
        self.status, self.version = int(written.split()[0]), written.split()[1]

    def json(self):
        return json.loads(self.body)


class Behind:
    """A server behind a proxy."""

    def __init__(self, conclave, proxy, folder, certificate):
        self.conclave, self.proxy, self.folder, self.certificate = conclave, proxy, folder, certificate
        self.key, self.secrets, self.room = conclave.ready["api_key"], [], None

    def curl(self, method, path, *options, data=None, source=CLIENT, port=None, scheme="https"):
        head, body = self.folder / "head", self.folder / "body"
        command = ["curl", "--silent", "--show-error", "--cacert", self.certificate, "--interface", source, "--request", method]
        command += ["--dump-header", head, "--output", body, "--write-out", "%{http_code} %{http_version}", *options]
        if method == "HEAD":
            command[command.index("--request") : command.index("--request") + 2] = ["--head"]
        if data is not None:
            command += ["--data-binary", "@-"]
            if not any("Content-Type" in option for option in map(str, options)):
                command += ["--header", "Content-Type: application/json"]
        url = f"{scheme}://localhost:{port or self.proxy.https}{path}"
        done = subprocess.run([*command, url], input=data, capture_output=True, text=True)
        assert done.returncode == 0, f"{method} {path}: {done.stderr}"
        return Response(head.read_text(), body.read_bytes(), done.stdout)

    def call(self, method, path, body=None, *options, **more):
        """Calls the API with the project's key."""
        options = ["--header", f"Authorization: Bearer {self.key}", *options]
        return self.curl(method, path, *options, data=None if body is None else json.dumps(body), **more)


def equal(seen, expected, what):
    assert seen == expected, f"{what}: {seen!r}, not {expected!r}"


def requests_pass(behind):
    """Requests over HTTP/1.1 and HTTP/2, the server's own errors, and the redirect from http."""
    behind.room = f"call-{time.monotonic_ns()}"
    created = behind.call("POST", "/v1/rooms", {"name": behind.room}, "--http2")
    equal((created.status, created.version, created.json()["name"]), (201, "2", behind.room), "a room by HTTP/2")
    assert "x-request-id" in created.headers, created.headers
    read = behind.call("GET", f"/v1/rooms/{behind.room}", None, "--http1.1")
    equal((read.status, read.version), (200, "1.1"), "a room by HTTP/1.1")
    large = behind.call("POST", "/v1/rooms", {"name": "large", "metadata": "a" * 1_000_000})
    equal((large.status, b"payload_too_large" in large.body), (413, True), f"a large body: {large.body}")
    equal(behind.curl("HEAD", "/").status, 200, "the probe of clients")
    token = behind.call("POST", "/v1/tokens", {"room": behind.room, "identity": "a", "role": "host"}).json()
    equal(token["url"], f"wss://localhost:{behind.proxy.https}", "the url of a token")
    behind.secrets.append(token["token"])
    # The longest request line that the server accepts.
    long = behind.curl("GET", f"/rtc/validate?protocol=16&access_token={token['token']}&padding={'a' * 60_000}")
    equal((long.status, long.headers["access-control-allow-origin"]), (200, "*"), f"a long url: {long.body}")
    moderated = behind.curl("POST", f"/v1/rooms/{behind.room}/send-data", "--header", f"X-Svc-Room-Token: {token['token']}", data="{}")
    equal(moderated.status, 400, f"a call with a room token: {moderated.body}")
    redirect = behind.curl("GET", "/call?a=b", port=behind.proxy.http, scheme="http")
    assert redirect.status in (301, 308), redirect.status
    # Caddy omits the port, which is usually 443.
    equal(redirect.headers["location"].replace(f":{behind.proxy.https}", ""), "https://localhost/call?a=b", "the redirect")
    return f"HTTP/1.1, HTTP/2, 413 of the server, {redirect.status} from http"


def exchange(behind, source, forged):
    """Exchanges an unused code, a new one each time, since each code also has a limit. The headers name another client."""
    code = "-".join("".join(random.choices("abcdefghjkmnpqrstuvwxyz", k=4)) for _ in range(3))
    behind.secrets.append(code)
    headers = [f"X-Forwarded-For: {forged}", f"X-Real-IP: {forged}", f"Forwarded: for={forged}"]
    options = [part for header in headers for part in ("--header", header)]
    return behind.curl("POST", f"/v1/codes/{code}/exchange", *options, data="{}", source=source)


def addresses_are_real(behind):
    """The server counts each client by its own address, regardless of its headers. Rejections arrive with their Retry-After."""
    # Addresses of no earlier request.
    first, other = (f"127.{kind}.{random.randrange(256)}.{random.randrange(1, 255)}" for kind in (1, 2))
    begun = time.monotonic()
    for taken in range(100):
        response = exchange(behind, first, f"203.0.113.{taken}")
        if response.status == 429:
            break
        equal(response.status, 404, "an exchange")
    # One further exchange per second after the burst.
    seconds = time.monotonic() - begun
    assert response.status == 429 and BURST <= taken <= BURST + 1 + seconds, f"{taken} in {seconds:.1f} s, then {response.status}"
    assert int(response.headers["retry-after"]) >= 1, response.headers
    statuses = [exchange(behind, other, first).status for _ in range(BURST)]
    equal(statuses, [404] * BURST, "another client")
    return f"429 after {taken}, with Retry-After; 404 for another client"


@contextmanager
def in_call(behind):
    """Two participants that see each other, with signalling through the proxy."""
    clients = [Native("alice"), Native("bob")]
    try:
        for client in clients:
            token = behind.conclave.token(behind.room, client.name)
            behind.secrets.append(token["token"])
            client.call("join", url=token["url"], token=token["token"], single=client is clients[0])
            client.call("publish")
        wait_for_video(*clients)
        yield clients
    finally:
        for client in clients:
            client.close()


def calls_are_recorded(behind):
    """A call and a recording of it; a second recording gets the server's 503."""
    with in_call(behind):
        recordings = f"/v1/rooms/{behind.room}/recordings"
        started = behind.call("POST", recordings, {"type": "room_composite", "layout": "grid"})
        equal(started.status, 201, "a recording")
        egress = started.json()["egress_id"]
        full = behind.call("POST", recordings, {"type": "room_composite", "layout": "grid", "filepath": "second.mp4"})
        equal((full.status, "retry-after" in full.headers), (503, True), "a second recording")
        status = lambda: behind.call("GET", f"/v1/recordings/{egress}").json()
        wait_for("the recording is active", lambda: status()["status"] == "active")
        equal(behind.call("POST", f"/v1/recordings/{egress}/stop", {}).status, 200, "the stop")
        wait_for("the recording is complete", lambda: status()["status"] == "complete", 60)
        behind.egress = egress
        return "video both ways, 503 for a second recording"


def file_of(behind):
    [file] = behind.conclave.data.glob("recordings/**/*.mp4")
    return file


def files_are_downloaded(behind):
    """A file by the key and by a link, whole and in parts."""
    path, whole = f"/files/recordings/{behind.egress}", file_of(behind).read_bytes()
    link = behind.call("GET", f"{path}/link?expires_in_seconds=3600").json()["path"]
    behind.secrets.append(link.split("signature=")[1])
    equal(behind.call("GET", path).body, whole, "the file by the key")
    by_link = behind.curl("GET", link)
    equal((by_link.status, by_link.body), (200, whole), "the file by a link")
    part = behind.curl("GET", link, "--range", "1000-1999")
    equal((part.status, part.body), (206, whole[1000:2000]), "a part")
    equal(part.headers["content-range"], f"bytes 1000-1999/{len(whole)}", "its place")
    head = behind.curl("HEAD", link)
    equal((head.status, int(head.headers["content-length"])), (200, len(whole)), "the head")
    same = behind.curl("GET", link, "--header", f"If-None-Match: {head.headers['etag']}")
    equal(same.status, 304, "the same file")
    return f"{len(whole) // 1000} kB, a range, 304"


def slow_downloads_end(behind):
    """A large file reaches slow clients completely, by HTTP/1.1 and by HTTP/2, even after more than a minute."""
    file = file_of(behind)
    with file.open("r+b") as opened:
        opened.truncate(SLOW_SIZE)
    expected = hashlib.sha256(file.read_bytes()).hexdigest()
    link = behind.call("GET", f"/files/recordings/{behind.egress}/link").json()["path"]
    behind.secrets.append(link.split("signature=")[1])

    def download(version):
        command = ["curl", "--silent", "--show-error", "--fail", "--cacert", behind.certificate, version]
        command += ["--limit-rate", str(SLOW_RATE), f"https://localhost:{behind.proxy.https}{link}"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    begun, running = time.monotonic(), {version: download(version) for version in ("--http1.1", "--http2")}
    seen = {}

    def read(version, process):
        digest = hashlib.sha256()
        while data := process.stdout.read(1 << 16):
            digest.update(data)
        seen[version] = digest.hexdigest()

    threads = [threading.Thread(target=read, args=one) for one in running.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for version, process in running.items():
        equal((process.wait(), seen[version]), (0, expected), f"a slow download, {version}: {process.stderr.read().decode()}")
    return f"{SLOW_SIZE // 1_000_000} MB in {time.monotonic() - begun:.0f} s"


def encoders_connect(behind):
    """WHIP requests: an offer, its answer with the session, and the end."""
    created = behind.call("POST", f"/v1/rooms/{behind.room}/ingress", {"participant_identity": "encoder", "input_type": "whip"})
    equal(created.status, 201, f"an endpoint: {created.body}")
    url, key = created.json()["url"], created.json()["stream_key"]
    behind.secrets.append(key)
    equal(url.split("/whip")[0], f"https://localhost:{behind.proxy.https}", "the url of the endpoint")
    path, sdp = f"/whip/{key}", ["--header", "Content-Type: application/sdp"]
    equal(behind.curl("OPTIONS", path).status, 204, "OPTIONS")
    answered = behind.curl("POST", path, *sdp, data=OFFER)
    equal((answered.status, answered.body[:4]), (201, b"v=0\r"), f"an offer: {answered.body}")
    session = answered.headers["location"]
    assert session.startswith("/whip/session/"), session
    behind.secrets.append(session.rsplit("/", 1)[1])
    equal(behind.curl("DELETE", session).status, 200, "the end")
    return "201 with a session, 200 at its end"


def restarts_are_survived(behind):
    """A restarted server is reachable again, and participants reconnect by themselves."""
    with in_call(behind) as clients:
        behind.conclave.terminate()
        equal(behind.call("GET", "/v1/plan").status, 502, "no server")
        behind.conclave.start()
        equal(behind.call("GET", "/v1/plan").status, 200, "a server again")
        reconnected = lambda client: any(event == "reconnected" for event, _ in client.call("events"))
        wait_for("the clients are back", lambda: all(map(reconnected, clients)), 60)
        wait_for_video(*clients)
    return "502 meanwhile, then 200 and video both ways"


def logs_have_no_secrets(behind):
    """No log of the proxy contains credentials for a call or a file."""
    logs = behind.proxy.logs()
    found = [secret for secret in behind.secrets if secret in logs]
    with_first = next((line for line in logs.splitlines() if found and found[0] in line), "")
    assert not found, f"{len(found)} of {len(behind.secrets)}, the first in: {with_first}"
    return f"none of {len(behind.secrets)} in {len(logs.splitlines())} lines"


STORIES = (
    requests_pass, addresses_are_real, calls_are_recorded, files_are_downloaded, encoders_connect, slow_downloads_end,
    restarts_are_survived, logs_have_no_secrets,
)


def check(kind, program, telling, only):
    with tempfile.TemporaryDirectory(prefix="conclave-proxies-") as folder:
        folder = Path(folder)
        certificate, key = make_certificate(folder)
        # Also for the SDK.
        os.environ["SSL_CERT_FILE"] = str(certificate)
        ports = free_port(), free_port()
        (folder / kind.program).mkdir()
        proxy = kind(folder / kind.program, ports[0], certificate, key)
        try:
            conclave = CallServer(program, network=Settings(proxy.https), ports=ports)
            try:
                behind = Behind(conclave, proxy, folder, certificate)
                for story in STORIES:
                    if only in (None, story.__name__) or story in (requests_pass, logs_have_no_secrets):
                        telling.tell(f"{kind.program}: {story.__name__}", story, behind)
            finally:
                conclave.stop()
        finally:
            proxy.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [kind.program for kind in proxies.KINDS]
    parser.add_argument("proxy", nargs="*", choices=[[], *names], help="all that are installed by default")
    parser.add_argument("--only", help="the name of a scenario")
    chosen = parser.parse_args()
    kinds = [kind for kind in proxies.KINDS if not chosen.proxy or kind.program in chosen.proxy]
    installed = [kind for kind in kinds if kind in proxies.installed()]
    if not installed:
        preparation.skip("no proxy is installed")
    program, telling = preparation.program(), Telling()
    for kind in kinds:
        if kind in installed:
            check(kind, program, telling, chosen.only)
        else:
            print(f"not checked: {kind.program} is not installed", flush=True)
    status = telling.end()
    # The SDK's threads do not end by themselves.
    sys.stdout.flush()
    os._exit(status)

