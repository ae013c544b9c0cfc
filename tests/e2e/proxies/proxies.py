"""Reverse proxies with the configurations of deploy/proxies, on free ports of this machine and with a certificate for `localhost`."""

import os
import shutil
import socket
import subprocess

from ..support import preparation
from ..support.certificates import NAME
from ..support.server import free_port
from ..support.telling import wait_for

FOLDER = preparation.ROOT / "deploy" / "proxies"
DOMAIN = "meet.example.org"


def changed(text, changes):
    """Returns a configuration with replaced texts. Each text must occur."""
    for before, after in changes.items():
        assert before in text, f"the configuration has no {before}"
        text = text.replace(before, after)
    return text


class Proxy:
    """A running proxy in front of a port of Conclave."""

    def __init__(self, folder, api, certificate, key):
        self.folder, self.api, self.certificate, self.key = folder, api, certificate, key
        self.http, self.https = free_port(), free_port()
        log, env = (folder / "output.log").open("w"), {**os.environ, "HOME": str(folder)}
        self.process = subprocess.Popen(self.command(), cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(f"{self.program} listens", self.listens)
        except AssertionError as error:
            self.stop()
            raise AssertionError(f"{error}\n{self.logs()}") from error

    def listens(self):
        assert self.process.poll() is None, f"{self.program} has ended: {self.logs()}"
        try:
            socket.create_connection(("127.0.0.1", self.https), timeout=1).close()
            return True
        except OSError:
            return False

    def write(self, name, changes, more=""):
        """Writes a configuration of deploy/proxies with the check's changes, and returns the file."""
        file = self.folder / name
        file.write_text(changed((FOLDER / name).read_text(), changes) + more)
        return file

    def logs(self):
        """Returns the complete output of the proxy."""
        return "".join(file.read_text() for file in sorted(self.folder.rglob("*.log")))

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


class Nginx(Proxy):
    program = "nginx"

    def command(self):
        certificates = f"/etc/letsencrypt/live/{DOMAIN}"
        self.write("nginx.conf", {
            "127.0.0.1:8080": f"127.0.0.1:{self.api}",
            "listen 80;": f"listen 127.0.0.1:{self.http};", "    listen [::]:80;\n": "",
            "listen 443 ": f"listen 127.0.0.1:{self.https} ", "    listen [::]:443 ssl http2;\n": "",
            f"{certificates}/fullchain.pem": str(self.certificate), f"{certificates}/privkey.pem": str(self.key),
            DOMAIN: NAME, "/var/log/nginx": str(self.folder),
        })
        main = self.folder / "main.conf"
        paths = " ".join(f"{part}_temp_path {self.folder}/{part};" for part in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        main.write_text(
            # An unprivileged user would not reach this folder.
            f"{'user root; ' if os.geteuid() == 0 else ''}daemon off; pid {self.folder}/nginx.pid; error_log {self.folder}/main.log;\n"
            f"events {{ }}\nhttp {{ {paths} include {self.folder}/nginx.conf; }}\n"
        )
        return ["nginx", "-e", self.folder / "main.log", "-p", self.folder, "-c", main]


class Caddy(Proxy):
    program = "caddy"

    def command(self):
        ports = f"\thttp_port {self.http}\n\thttps_port {self.https}\n\tadmin off\n\tskip_install_trust\n"
        file = self.write("Caddyfile", {
            "127.0.0.1:8080": f"127.0.0.1:{self.api}", "\n{\n": f"\n{{\n{ports}",
            f"\n{DOMAIN} {{\n": f"\n{NAME} {{\n\ttls {self.certificate} {self.key}\n\tlog\n",
        })
        return ["caddy", "run", "--adapter", "caddyfile", "--config", file]


class Traefik(Proxy):
    program = "traefik"

    def command(self):
        self.write("traefik.yml", {
            '":80"': f'"127.0.0.1:{self.http}"', '":443"': f'"127.0.0.1:{self.https}"',
            "/etc/traefik": str(self.folder),
        })
        certificates = f"tls:\n  certificates:\n    - certFile: {self.certificate}\n      keyFile: {self.key}\n"
        self.write("conclave.yml", {
            "127.0.0.1:8080": f"127.0.0.1:{self.api}", DOMAIN: NAME, "tls:\n        certResolver: letsencrypt": "tls: {}",
        }, more=certificates)
        return ["traefik", f"--configFile={self.folder / 'traefik.yml'}"]


KINDS = (Nginx, Caddy, Traefik)


def installed():
    """Returns the kinds of proxies on this machine."""
    # Debian installs nginx in a directory that only root has in PATH.
    os.environ["PATH"] += ":/usr/sbin"
    return [kind for kind in KINDS if shutil.which(kind.program)]
