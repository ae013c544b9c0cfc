"""A livekit-server on loopback: a server's media plane, or the control of a comparison."""

import json
import subprocess
from pathlib import Path

from .server import free_port

KEY, SECRET = "check-clients", "a-secret-of-the-check-that-is-long-enough"
# For clients on this machine.
LOOPBACK = {
    "use_ice_lite": True, "node_ip": "127.0.0.1", "enable_loopback_candidate": True,
    # Other addresses would be advertised as the same one, and clients would then reach an unrelated socket.
    "ips": {"includes": ["127.0.0.1/32"]},
}


class LiveKit:
    """A livekit-server in a folder. `config` extends its configuration, `rtc` the media section."""

    def __init__(self, program, folder, log, *, rtc=LOOPBACK, key=KEY, secret=SECRET, **config):
        self.port, self.key, self.secret = free_port(), key, secret
        config |= {
            "port": self.port,
            "bind_addresses": ["127.0.0.1"],
            "rtc": {"udp_port": free_port(), "tcp_port": free_port()} | rtc,
            "keys": {key: secret},
        }
        file = Path(folder) / "livekit.yaml"
        # JSON is YAML.
        file.write_text(json.dumps(config))
        self.process = subprocess.Popen([program, "--config", file], stdout=log, stderr=log)

    def settings(self):
        """Returns the settings of a server that uses it as its media plane."""
        return {
            "CONCLAVE_MEDIA__KIND": "livekit",
            "CONCLAVE_MEDIA__SANDBOX": "false",
            "CONCLAVE_MEDIA__URL": f"http://127.0.0.1:{self.port}",
            "CONCLAVE_MEDIA__PUBLIC_URL": f"ws://127.0.0.1:{self.port}",
            "CONCLAVE_MEDIA__API_KEY": self.key,
            "CONCLAVE_MEDIA__API_SECRET": self.secret,
        }

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
