"""External clients, which receive numbered commands and respond to each with a result."""

import queue


class ClientError(Exception):
    """A command failed in the client."""


class Remote:
    """A client whose `send` transmits commands, and whose results are put into `results`."""

    def __init__(self, kind, name):
        self.kind, self.name, self.number, self.results = kind, name, 0, queue.Queue()

    def send(self, command):
        raise NotImplementedError

    def call(self, action, timeout=40, **options):
        """Runs an action of the client, and returns its result."""
        self.number += 1
        self.send({"number": self.number, "action": action, "options": options})
        while True:
            try:
                result = self.results.get(timeout=timeout)
            except queue.Empty:
                raise ClientError(f"{self.name}: no result of {action} within {timeout} s") from None
            if result["number"] == self.number:
                break
        if "error" in result:
            raise ClientError(f"{self.name}: {action}: {result['error']}")
        return result["value"]
