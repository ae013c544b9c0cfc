"""A network between clients and the media workers that loses packets, is slow or blocks UDP, as a story says."""

import heapq
import itertools
import random
import selectors
import socket
import threading
import time
from dataclasses import dataclass

# The server listens on one address and tells clients the other, where this network forwards from.
SERVER, CLIENTS = "127.0.0.1", "127.0.0.2"
# How long packets wait at most where the bandwidth is limited, in seconds.
QUEUE = 0.3
PACKET = 65_536


@dataclass
class Conditions:
    """What the network is like for the last client of a call, or for all, in both directions but for the bandwidth, which is limited to
    the client."""

    loss: float = 0.0
    bits_per_second: int = 0
    has_udp: bool = True
    are_for_all: bool = False

    def __str__(self):
        parts = [f"{self.loss:.0%} loss{' for all' if self.are_for_all else ''}"] if self.loss else []
        return ", ".join(parts + ([] if self.has_udp else ["UDP blocked"]))


class Flow:
    """The UDP packets of one address of a client."""

    def __init__(self, client, port, conditions):
        self.client, self.conditions, self.free_at = client, conditions, 0.0
        self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.server.connect((SERVER, port))
        self.server.setblocking(False)


class Network:
    """Forwards UDP and TCP at the port of a media worker. A client's conditions are those of the time when it connects; they
    can be changed later."""

    def __init__(self):
        self.conditions, self.flows, self.queue, self.order = Conditions(), {}, [], itertools.count()
        self.random, self.selector = random.Random(1), selectors.DefaultSelector()
        self.port, self.udp, self.tcp = sockets()
        self.selector.register(self.udp, selectors.EVENT_READ)
        for forward in (self.forward_udp, self.forward_tcp):
            threading.Thread(target=forward, daemon=True).start()

    def settings(self):
        """The settings of a server in this network."""
        return {
            "CONCLAVE_MEDIA__RTC__UDP_PORTS": str(self.port),
            "CONCLAVE_MEDIA__RTC__WORKERS": "1",
            "CONCLAVE_MEDIA__RTC__ADDRESSES": SERVER,
            "CONCLAVE_MEDIA__RTC__EXTERNAL_ADDRESSES": CLIENTS,
        }

    def forward_udp(self):
        while True:
            wait = max(0, self.queue[0][0] - time.monotonic()) if self.queue else None
            for ready, _ in self.selector.select(wait):
                self.read(ready.fileobj, ready.data)
            while self.queue and self.queue[0][0] <= time.monotonic():
                _, _, client, packet = heapq.heappop(self.queue)
                self.udp.sendto(packet, client)

    def read(self, source, flow):
        """Passes on what has arrived: from the server if the flow is known, and else from a client."""
        while True:
            try:
                packet, address = source.recvfrom(PACKET)
            except OSError:
                return
            if flow:
                self.send_to_client(flow, packet)
            else:
                self.send_to_server(address, packet)

    def send_to_server(self, client, packet):
        if not (flow := self.flows.get(client)):
            flow = self.flows[client] = Flow(client, self.port, self.conditions)
            self.selector.register(flow.server, selectors.EVENT_READ, flow)
        if not self.loses(flow.conditions):
            flow.server.send(packet)

    def send_to_client(self, flow, packet):
        if self.loses(flow.conditions):
            return
        now, rate = time.monotonic(), flow.conditions.bits_per_second
        due = max(now, flow.free_at) + len(packet) * 8 / rate if rate else now
        if due - now < QUEUE:
            flow.free_at = due
            heapq.heappush(self.queue, (due, next(self.order), flow.client, packet))

    def loses(self, conditions):
        return not conditions.has_udp or self.random.random() < conditions.loss

    def forward_tcp(self):
        while True:
            client, _ = self.tcp.accept()
            server = socket.create_connection((SERVER, self.port))
            for source, target in (client, server), (server, client):
                threading.Thread(target=copy, args=(source, target), daemon=True).start()


def sockets():
    """A port that is free on both addresses, with its sockets on that of the clients."""
    while True:
        tcp = socket.create_server((CLIENTS, 0))
        port = tcp.getsockname()[1]
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            udp.bind((CLIENTS, port))
            socket.create_server((SERVER, port)).close()
        except OSError:
            continue
        udp.setblocking(False)
        return port, udp, tcp


def copy(source, target):
    try:
        while data := source.recv(PACKET):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        end.close()
