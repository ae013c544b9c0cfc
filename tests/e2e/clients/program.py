"""Clients as programs: they read commands from standard input and write results to standard output, as lines of JSON."""

import json
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from ..support.preparation import target_directory
from ..support.remote import ClientError, Remote
from ..support.sdks import GO_SDK, NODE_SDK, command, go_module, need, stamped
from . import videos

HERE = Path(__file__).resolve().parent

# Number of characters of a program's standard error that are shown when it has ended.
LAST_WORDS = 500


class Program(Remote):
    """A process with one client."""

    def __init__(self, kind, name, command):
        super().__init__(kind, name)
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            # SDKs also log to standard output.
            if line.startswith('{"number":'):
                self.results.put(json.loads(line))
        self.process.wait()
        self.results.put({"number": self.number, "error": f"the program has ended with {self.process.returncode}: {self.last_words()}"})

    def last_words(self):
        self.log.seek(0)
        return self.log.read().strip()[-LAST_WORDS:]

    def send(self, command):
        try:
            print(json.dumps(command), file=self.process.stdin, flush=True)
        except OSError as error:
            raise ClientError(f"{self.name}: {error}: {self.last_words()}") from error

    def close(self):
        """Stops the program, which ends by itself at the end of its input."""
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.log.close()


def node_client():
    """Returns the command that runs the client of LiveKit's SDK for Node.js."""

    def make(folder):
        need("node", "npm")
        command("npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix", folder, f"@livekit/rtc-node@{NODE_SDK}")

    folder = stamped(target_directory() / "check-clients" / f"node-{NODE_SDK}", NODE_SDK, make)
    return ["node", HERE / "node" / "client.mjs", folder / "node_modules" / "@livekit" / "rtc-node" / "dist" / "index.js"]


def go_client():
    """Builds the client of LiveKit's SDK for Go, and returns the command that runs it, with the folder of its videos."""
    ours = sorted((HERE / "go").glob("*.go"))

    def make(folder):
        go_module("github.com/livekit/server-sdk-go/v2", GO_SDK, folder)
        # In the SDK's module, dependencies have the versions that LiveKit tests.
        shutil.copytree(HERE / "go", folder / "client")
        command("go", "build", "-o", folder / "program", "./client", cwd=folder)

    base = target_directory() / "check-clients"
    folder = stamped(base / f"go-{GO_SDK}", "".join(file.read_text() for file in ours), make)
    made = stamped(base / "videos", Path(videos.__file__).read_text(), videos.make)
    return [folder / "program", made]
