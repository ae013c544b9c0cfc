"""Obtains certificates from Pebble, Let's Encrypt's ACME test server, and calls the API with TLS.

    scripts/check tls

Pebble is built by Go from its module, once, in target/check-tls; a DNS server beside it resolves every name to this machine.
No other traffic. Needs Go and curl (Debian: golang, curl). Exits 0 only if everything held, and 77 if Pebble cannot be built.
"""

import hashlib
import json
import os
import socket
import ssl
import subprocess
import tempfile
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from ..support import preparation
from ..support.server import Server, free_port
from ..support.telling import Telling, wait_for

PEBBLE = "github.com/letsencrypt/pebble/v2", "v2.10.1"
DOMAIN = "meet.example.org"
# Time limit for a connection in seconds.
PATIENCE = 20
# Lifetimes of certificates in seconds: without a renewal during the check, and with a renewal.
LONG, SHORT = 90 * 24 * 3600, 20


def pebble(directory):
    """Returns the folders of the programs and of Pebble's sources, which contain its certificate. Builds missing programs."""
    module, version = PEBBLE
    programs, sources = directory / version, directory / "go" / "pkg" / "mod" / f"{module}@{version}"
    if not (programs / "pebble-challtestsrv").exists() or not sources.exists():
        variables = os.environ | {"GOPATH": str(directory / "go"), "GOBIN": str(programs), "GOFLAGS": "-modcacherw"}
        for program in ("pebble", "pebble-challtestsrv"):
            built = subprocess.run(["go", "install", f"{module}/cmd/{program}@{version}"], env=variables, cwd=directory)
            if built.returncode:
                return None
    return programs, sources / "test" / "certs"


class Pebble:
    """A CA that validates the domain at these ports."""

    def __init__(self, built, directory, ports, lifetime):
        (programs, certificates), self.port, self.management, dns = built, free_port(), free_port(), free_port()
        self.root = certificates / "pebble.minica.pem"
        config = {
            "listenAddress": f"127.0.0.1:{self.port}", "managementListenAddress": f"127.0.0.1:{self.management}",
            "certificate": str(certificates / "localhost" / "cert.pem"), "privateKey": str(certificates / "localhost" / "key.pem"),
            "tlsPort": ports["tls"], "httpPort": ports["http"], "retryAfter": {"authz": 1, "order": 1},
            "profiles": {"default": {"description": "the only one", "validityPeriod": lifetime}},
        }
        (directory / "pebble.json").write_text(json.dumps({"pebble": config}))
        variables = os.environ | {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_AUTHZREUSE": "0"}
        log = (directory / "pebble.log").open("a")
        nothing = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-management", f"127.0.0.1:{free_port()}"]
        answer = ["-dnsserver", f"127.0.0.1:{dns}", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]
        ca = ["-strict", "-config", directory / "pebble.json", "-dnsserver", f"127.0.0.1:{dns}"]
        commands = [programs / "pebble-challtestsrv", *nothing, *answer], [programs / "pebble", *ca]
        self.processes = [subprocess.Popen(command, env=variables, stdout=log, stderr=log) for command in commands]
        wait_for("Pebble answers", lambda: self.roots())

    def roots(self):
        """Returns Pebble's root certificate."""
        context = ssl.create_default_context(cafile=self.root)
        try:
            return urllib.request.urlopen(f"https://127.0.0.1:{self.management}/roots/0", context=context).read()
        except OSError:
            return None

    def stop(self):
        for process in self.processes:
            process.terminate()
            process.wait()


class SecureServer(Server):
    """A server with a domain, whose certificate the CA issues."""

    def __init__(self, program, folder, ports, ca):
        settings = {
            "CONCLAVE_TLS__DOMAIN": DOMAIN, "CONCLAVE_TLS__ACME_DIRECTORY": f"https://127.0.0.1:{ca.port}/dir",
            "CONCLAVE_TLS__ACME_ROOT": str(ca.root), "CONCLAVE_TLS__ACME_CONTACT": "ops@example.org",
            "CONCLAVE_TLS__REDIRECT_LISTEN": f"127.0.0.1:{ports['redirect']}",
            "CONCLAVE_MEDIA__RTMP_LISTEN": f"127.0.0.1:{ports['rtmp']}", "RUST_LOG": "info",
        }
        super().__init__(program, folder, settings, ports=(ports["api"], 0))
        self.redirect, self.rtmp = ports["redirect"], ports["rtmp"]
        self.start()

    def state(self):
        return self.request("GET", "/readyz")["parts"]["tls"]

    def has_certificate(self):
        return "due for renewal at" in self.state()


class Check:
    def __init__(self, program, built):
        self.program, self.built = program, built

    @contextmanager
    def running(self, challenge, lifetime):
        """Yields a server and a CA that reaches it for one challenge only."""
        ports = {name: free_port() for name in ("api", "redirect", "rtmp", "closed")}
        looked = {"tls": ports["api" if challenge == "tls-alpn-01" else "closed"]}
        looked["http"] = ports["redirect" if challenge == "http-01" else "closed"]
        with tempfile.TemporaryDirectory(prefix="conclave-tls-") as folder:
            self.directory = Path(folder)
            ca = Pebble(self.built, self.directory, looked, lifetime)
            try:
                self.root = self.directory / "root.pem"
                self.root.write_bytes(ca.roots())
                server = SecureServer(self.program, self.directory, ports, ca)
                try:
                    wait_for("a certificate is obtained", server.has_certificate)
                    yield server, ca
                except AssertionError as error:
                    raise AssertionError(f"{error}\n{server.log.read_text()}") from error
                finally:
                    server.terminate()
            finally:
                ca.stop()

    def fingerprint(self, port):
        """Returns the fingerprint of the certificate at a port, which must be trusted and valid for the domain."""
        context = ssl.create_default_context(cafile=self.root)
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
            with context.wrap_socket(plain, server_hostname=DOMAIN) as tls:
                return hashlib.sha256(tls.getpeercert(binary_form=True)).hexdigest()

    def create_room(self, server, name):
        """Calls the API by its URL, with curl."""
        port = server.ports[0]
        command = ["curl", "--silent", "--show-error", "--fail-with-body", "--cacert", self.root]
        command += ["--resolve", f"{DOMAIN}:{port}:127.0.0.1", "--header", f"Authorization: Bearer {server.ready['api_key']}"]
        command += ["--json", json.dumps({"name": name}), f"{server.ready['api']}/v1/rooms"]
        room = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        assert room["name"] == name, room

    def by_handshake(self):
        with self.running("tls-alpn-01", LONG) as (server, ca):
            assert server.ready["api"] == f"https://{DOMAIN}:{server.ports[0]}", server.ready
            self.create_room(server, "first")
            before = self.fingerprint(server.ports[0])
            assert self.fingerprint(server.rtmp) == before
            server.terminate()
            ca.stop()
            server.start()
            self.create_room(server, "second")
            assert self.fingerprint(server.ports[0]) == before
            assert "PRIVATE KEY" not in server.log.read_text()
            return f"{server.state()}; the same after a restart without the CA, and for RTMPS"

    def by_http(self):
        with self.running("http-01", LONG) as (server, _):
            self.create_room(server, "first")
            assert "the CA did not verify the domain by tls-alpn-01" in server.log.read_text(), server.log.read_text()
            redirect = f"http://127.0.0.1:{server.redirect}/call"
            command = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", redirect]
            assert subprocess.check_output(command, text=True) == "308"
            return "after tls-alpn-01 had failed"

    def renewed(self):
        with self.running("tls-alpn-01", SHORT) as (server, _):
            before = self.fingerprint(server.ports[0])
            wait_for("the certificate is another one", lambda: self.fingerprint(server.ports[0]) != before)
            self.create_room(server, "renewed")
            return f"a certificate for {SHORT} seconds"


def main():
    directory = preparation.target_directory() / "check-tls"
    directory.mkdir(parents=True, exist_ok=True)
    built = pebble(directory)
    if not built:
        preparation.skip("Pebble cannot be built")
    check, telling = Check(preparation.program(), built), Telling()
    telling.tell("a certificate is obtained by tls-alpn-01", check.by_handshake)
    telling.tell("a certificate is obtained by http-01", check.by_http)
    telling.tell("a certificate is renewed", check.renewed)
    return telling.end()

