"""A livekit-server on loopback: the media plane of a server, or the control of a comparison."""

import json
import subprocess
from pathlib import Path

from .server import free_port

KEY, SECRET = "check-clients", "a-secret-of-the-check-that-is-long-enough"
# For clients on this machine.
LOOPBACK = {
    "use_ice_lite": True, "node_ip": "127.0.0.1", "enable_loopback_candidate": True,
    # Other addresses would be advertised as the same one, and clients then reach a socket that does not expect them.
    "ips": {"includes": ["127.0.0.1/32"]},
}


class LiveKit:
    """A livekit-server in a folder. `config` is added to its configuration, `rtc` to that of its media."""

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
        """The settings of a server that has it as its media plane."""
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
