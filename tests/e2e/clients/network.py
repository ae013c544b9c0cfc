"""A network between clients and the media workers with packet loss, a low bandwidth, or without UDP, as a scenario defines."""

import heapq
import itertools
import random
import selectors
import socket
import threading
import time
from dataclasses import dataclass

# The server listens on one address and advertises the other, from which this network forwards.
SERVER, CLIENTS = "127.0.0.1", "127.0.0.2"
# Longest queueing delay in seconds where the bandwidth is limited.
QUEUE = 0.3
PACKET = 65_536


@dataclass
class Conditions:
    """Network conditions of the last client in a call, or of all, in both directions, except for the bandwidth, which is limited
    towards the client."""

    loss: float = 0.0
    bits_per_second: int = 0
    has_udp: bool = True
    are_for_all: bool = False

    def __str__(self):
        parts = [f"{self.loss:.0%} loss{' for all' if self.are_for_all else ''}"] if self.loss else []
        return ", ".join(parts + ([] if self.has_udp else ["UDP blocked"]))


class Flow:
    """UDP packets of one client address."""

    def __init__(self, client, port, conditions):
        self.client, self.conditions, self.free_at = client, conditions, 0.0
        self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.server.connect((SERVER, port))
        self.server.setblocking(False)


class Network:
    """Forwards UDP and TCP at a media worker's port. A client has the conditions at the time when it connects; they
    can be changed later."""

    def __init__(self):
        self.conditions, self.flows, self.queue, self.order = Conditions(), {}, [], itertools.count()
        self.random, self.selector = random.Random(1), selectors.DefaultSelector()
        self.port, self.udp, self.tcp = sockets()
        self.selector.register(self.udp, selectors.EVENT_READ)
        for forward in (self.forward_udp, self.forward_tcp):
            threading.Thread(target=forward, daemon=True).start()

    def settings(self):
        """Returns a server's settings in this network."""
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
        """Forwards received packets: from the server if the flow is known, otherwise from a client."""
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
    """Finds a port that is free on both addresses, and returns it with its sockets on the clients' address."""
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
