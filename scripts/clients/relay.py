"""A TURN server on loopback, coturn, which relays the media of clients that can reach nothing else."""

import shutil
import subprocess

from deployment import free_port
from network import SERVER, Conditions
from stories import wait_for_video

SECRET = "a-secret-that-the-relay-shares-with-the-server"
PROGRAM = "turnserver"


def is_installed():
    return bool(shutil.which(PROGRAM))


class Relay:
    """Clients reach it by `transport`: udp or tcp. It takes credentials that the server has made with their shared secret."""

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
        """The settings of a server whose clients may use it."""
        return {
            "CONCLAVE_MEDIA__RTC__TURN__URLS": f"turn:{SERVER}:{self.port}?transport={self.transport}",
            "CONCLAVE_MEDIA__RTC__TURN__SECRET": SECRET,
        }

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def media_is_relayed(call, transport):
    """A client that uses the relay only is seen by the others, and sees them."""
    relayed = call.clients[-1]
    joined = call.join(relayed, relay=True)
    for client in call.clients:
        client.call("publish")
    wait_for_video(*call.clients)
    route = relayed.call("route")
    assert (route["type"], route["relayProtocol"]) == ("relay", transport), route
    return f"joined within {joined['ms']} ms"
