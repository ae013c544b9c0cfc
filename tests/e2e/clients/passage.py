"""Forwards connections to ports. As a program, it runs inside the network namespace of only_443.py: it forwards, starts the client, and
ends with it.

    unshare --net python3 passage.py [PORT SOCKET]... -- COMMAND ARGUMENT...
"""

import signal
import socket
import subprocess
import sys
import threading

PACKET = 65_536


def pass_on(listener, target):
    """Connects each connection to a target: an address, or a Unix socket."""
    while True:
        try:
            client, _ = listener.accept()
            server = socket.create_connection(target) if isinstance(target, tuple) else connect(target)
        except OSError:
            continue
        for ends in (client, server), (server, client):
            threading.Thread(target=copy, args=ends, daemon=True).start()


def connect(file):
    server = socket.socket(socket.AF_UNIX)
    server.connect(file)
    return server


def copy(source, target):
    try:
        while data := source.recv(PACKET):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            end.close()


def main():
    """Runs inside the namespace."""
    end = sys.argv.index("--")
    passages, command = sys.argv[1:end], sys.argv[end + 1 :]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for port, file in zip(passages[::2], passages[1::2]):
        threading.Thread(target=pass_on, args=(socket.create_server(("127.0.0.1", int(port))), file), daemon=True).start()
    client = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: client.terminate())
    sys.exit(client.wait())


if __name__ == "__main__":
    main()
