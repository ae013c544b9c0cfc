"""A third-party S3 server (moto), and a connection to it that can be cut."""

import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from ..support.server import free_port

MOTO = "moto[server]==5.2.5"
# moto requires a signature, but does not verify it.
SIGNED = {"authorization": "AWS4-HMAC-SHA256 Credential=check/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"}


class Storage:
    """A server with a bucket, whose objects are in memory."""

    def __init__(self, bucket):
        self.bucket, self.port = bucket, free_port()
        command = [Path(sys.prefix) / "bin" / "moto_server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(150):
            try:
                self.request("PUT", f"/{bucket}")
                return
            except urllib.error.URLError:
                time.sleep(0.2)
        raise RuntimeError("moto does not answer")

    def request(self, method, path):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method, headers=SIGNED)
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.read()

    def object(self, name):
        return self.request("GET", f"/{self.bucket}/{name}")

    def has_incomplete_uploads(self):
        return b"<UploadId>" in self.request("GET", f"/{self.bucket}?uploads")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


class Connection:
    """A port that forwards to another port. It can cut connections while they send, or stall."""

    def __init__(self, port):
        self.to, self.cuts, self.cut, self.passed = port, [], 0, 0
        self.is_open = threading.Event()
        self.is_open.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            threading.Thread(target=self.pass_on, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(server, client, False), daemon=True).start()

    def pass_on(self, source, sink, is_request):
        sent = 0
        try:
            while data := source.recv(65_536):
                sent += len(data) if is_request else 0
                self.passed += len(data) if is_request else 0
                if is_request and self.cuts and sent > self.cuts[0]:
                    self.cuts.pop(0)
                    self.cut += 1
                    break
                if is_request and sent > 1_000_000:
                    self.is_open.wait()
                sink.sendall(data)
        except OSError:
            pass
        for side in (source, sink):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            # Only a closed socket rejects data that is still being sent to it.
            side.close()

    def stop(self):
        self.is_open.set()
        self.listener.close()
