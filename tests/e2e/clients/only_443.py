"""A network in which only TCP port 443 of the server is open: a network namespace with only a loopback interface, in which a
program forwards connections to that port, through a Unix socket (passage.py).
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from ..support.certificates import NAME, make_certificate
from ..support.watching import wait_for_more_video, wait_for_video
from . import passage
from .passage import pass_on

HTTPS = 443


def is_possible():
    """Returns whether this user may create network namespaces, and openssl is installed."""
    try:
        probe = subprocess.run([*INSIDE, "ip", "link", "set", "lo", "up"], capture_output=True)
        return probe.returncode == 0 and subprocess.run(["openssl", "version"], capture_output=True).returncode == 0
    except OSError:
        return False


INSIDE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]


class Only443:
    """The server has a certificate for `localhost`, and clients reach it at port 443 there. Its TURN server has no UDP."""

    def __init__(self, pages, port):
        self.directory, self.conditions = tempfile.TemporaryDirectory(prefix="conclave-443-"), None
        self.passages = {HTTPS: port, pages.server.server_port: pages.server.server_port}
        for inside, target in self.passages.items():
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self.socket(inside))
            listener.listen(64)
            threading.Thread(target=pass_on, args=(listener, ("127.0.0.1", target)), daemon=True).start()
        self.certificate, self.key = make_certificate(Path(self.directory.name))
        # For the check's own requests.
        os.environ["SSL_CERT_FILE"] = str(self.certificate)

    def socket(self, port):
        return str(Path(self.directory.name) / f"{port}.socket")

    def settings(self):
        return {
            "CONCLAVE_TLS__CERT": str(self.certificate),
            "CONCLAVE_TLS__KEY": str(self.key),
            "CONCLAVE_MEDIA__PUBLIC_URL": f"wss://{NAME}",
            "CONCLAVE_MEDIA__RTC__TURN__SERVER": "on",
            "CONCLAVE_MEDIA__RTC__TURN__UDP_PORT": "0",
        }

    def around(self):
        """Returns the command prefix that runs a command in this network."""
        passages = [part for port in self.passages for part in (str(port), self.socket(port))]
        return [*INSIDE, sys.executable, passage.__file__, *passages, "--"]

    def stop(self):
        os.environ.pop("SSL_CERT_FILE", None)
        self.directory.cleanup()


def media_goes_by_443(call):
    """If no other port is open, all clients see all others, and media uses the TURN server at the API's port."""
    for client in call.clients:
        client.call("publish")
    wait_for_video(*call.clients)
    wait_for_more_video(*call.clients)
    routes = [client.call("route") for client in call.clients]
    assert all((route["type"], route["relayProtocol"]) == ("relay", "tls") for route in routes), routes
    return "video both ways"
