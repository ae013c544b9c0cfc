"""TURN servers on loopback, for clients that cannot reach the media workers: coturn, and the server's own."""

import shutil
import socket
import subprocess

from ..support.server import free_port
from ..support.watching import wait_for_video
from .network import SERVER, Conditions

SECRET = "a-secret-that-the-relay-shares-with-the-server"
PROGRAM = "turnserver"


def is_installed():
    return bool(shutil.which(PROGRAM))


class Relay:
    """coturn, reached by `transport`: udp or tcp. It accepts the server's credentials, made with their shared secret."""

    def __init__(self, transport):
        self.transport, self.port, self.conditions = transport, free_port(), Conditions()
        self.process = subprocess.Popen(
            [
                PROGRAM, "-n", "--no-cli", "--no-tls", "--no-dtls", "--realm=conclave", "--log-file=stdout", "--pidfile=",
                f"--listening-ip={SERVER}", f"--relay-ip={SERVER}", f"--listening-port={self.port}", "--allow-loopback-peers",
                "--use-auth-secret", f"--static-auth-secret={SECRET}", "--no-udp" if transport == "tcp" else "--no-tcp",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )

    def settings(self):
        """Returns the settings of a server whose clients may use this relay."""
        return {
            "CONCLAVE_MEDIA__RTC__TURN__URLS": f"turn:{SERVER}:{self.port}?transport={self.transport}",
            "CONCLAVE_MEDIA__RTC__TURN__SECRET": SECRET,
        }

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


class OwnRelay:
    """The server's own TURN server. For tcp, the check occupies its UDP port, so that clients can use only the API's port."""

    PORT = 3478

    def __init__(self, transport):
        self.transport, self.conditions, self.taken = transport, Conditions(), []
        if transport == "tcp":
            self.taken = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
            self.taken[0].bind(("0.0.0.0", self.PORT))

    def settings(self):
        port = self.PORT if self.transport == "tcp" else 0
        return {"CONCLAVE_MEDIA__RTC__TURN__SERVER": "on", "CONCLAVE_MEDIA__RTC__TURN__UDP_PORT": str(port)}

    def stop(self):
        for taken in self.taken:
            taken.close()


def media_is_relayed(call, transport):
    """A client that uses only the relay is seen by the others, and sees them."""
    relayed = call.clients[-1]
    joined = call.join(relayed, relay=True)
    for client in call.clients:
        client.call("publish")
    wait_for_video(*call.clients)
    route = relayed.call("route")
    assert (route["type"], route["relayProtocol"]) == ("relay", transport), route
    return f"joined within {joined['ms']} ms"
