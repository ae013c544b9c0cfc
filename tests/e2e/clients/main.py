"""Connects LiveKit's own clients to each other through Conclave: livekit-client in Chromium and Firefox, and the SDKs for Python,
Node.js and Go.

    scripts/check clients                             with the embedded media plane
    scripts/check clients --livekit-server PATH       with a LiveKit server as the media plane
    scripts/check clients --core                      half of the scenarios, in a third of the time: one connection for each client
    scripts/check clients --only messages_arrive ...  some scenarios only
    scripts/check clients --client node ...           scenarios with such a client only: chromium, firefox, python, node or go
    scripts/check clients --leaves 200                number of leaves of each client

The check controls the clients, in both connection modes; the requirements are in stories.py. Browsers have a fake camera and
microphone. No traffic leaves the machine.

Needs Chromium and, for their scenarios, Firefox and coturn (Debian: chromium, firefox-esr, coturn), Node.js, Go and ffmpeg, openssl and
network namespaces; the SDKs are installed once, in target/check-clients. Exits 0 only if every scenario held, and 77 if Chromium or the
Python SDK is missing and cannot be installed.
"""

import argparse
import copy
import itertools
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from ..support import preparation
from ..support.browser import Browser, Pages
from ..support.livekit_server import LiveKit
from ..support.native import Native
from ..support.receiver import Receiver
from ..support.server import CallServer, free_port
from ..support.telling import Telling
from . import (
    codecs_of_clients,
    crowds,
    losses,
    metadata_and_data_tracks,
    only_443,
    poor_networks,
    reconnects,
    relay,
    scalability_modes,
    stories,
)
from .network import Conditions, Network

# Failures that the server simulates on a client's request.
SIMULATED = ["disconnect-signal-on-resume", "disconnect-signal-on-resume-no-messages", "migration", "node-failure"]
MODES = {True: "one connection", False: "two connections"}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--livekit-server", type=Path, help="the program of a LiveKit server")
    parser.add_argument("--only", help="the name of a scenario")
    parser.add_argument("--client", help="the kind of a client")
    parser.add_argument("--core", action="store_true", help="the scenarios that .ci/run runs")
    parser.add_argument("--leaves", type=int, default=20, help="how often each client leaves, to see that it has left")
    return parser.parse_args()


class Check:
    """Runs the clients' scenarios, or some of them."""

    def __init__(self, conclave, only, kind, is_core):
        self.conclave, self.only, self.kind, self.telling = conclave, only, kind, Telling()
        # The connection modes: one connection for each client, or two.
        self.is_core, self.modes = is_core, (True,) if is_core else (True, False)

    def tell(self, story, clients, single=True, conclave=None, conditions=None, **details):
        if self.only not in (None, story.__name__) or self.kind and all(client.kind != self.kind for client in clients):
            return
        names = " and ".join(client.name for client in clients)
        mode = MODES.get(single, "one and two connections")
        notes = [f"{name} {value}".replace("_", " ") for name, value in details.items()]
        title = f"{story.__name__}: " + ", ".join(filter(None, [names, mode, *notes, str(conditions or "")]))

        def call_and_look():
            with stories.Call(conclave or self.conclave, clients, single, copy.copy(conditions)) as call:
                return story(call, **details)

        self.telling.tell(title, call_and_look)


def tell_all(check, leaves, python, chromium, other, firefox=None):
    for single in check.modes:
        check.tell(stories.pictures_arrive, [chromium, python], single)
        check.tell(stories.pictures_arrive, [chromium, other], single)
        check.tell(stories.messages_arrive, [chromium, python], single)
        check.tell(stories.messages_arrive, [python, chromium], single)
        check.tell(stories.a_late_client_sees_all, [chromium, python], single)
        check.tell(stories.layers_change, [chromium, other], single)
        for scenario in ("signal-reconnect", "resume-reconnect", "full-reconnect"):
            check.tell(reconnects.connections_come_back, [chromium, python], single, scenario=scenario)
        check.tell(reconnects.messages_survive_a_resume, [chromium, python], single)
        check.tell(stories.clients_leave_cleanly, [python, chromium, *([firefox] if firefox else [])], single, leaves=leaves)
    check.tell(stories.the_server_sends, [chromium, python])
    check.tell(stories.a_moderator_acts, [python, chromium])
    if check.is_core:
        return
    for scenario in SIMULATED:
        check.tell(reconnects.connections_come_back, [chromium, python], scenario=scenario)
    check.tell(stories.pictures_arrive, [chromium, python], (True, False))
    check.tell(stories.pictures_arrive, [chromium, python], (False, True))
    tell_of_crowds(check, python, chromium)
    if firefox:
        check.tell(stories.pictures_arrive, [firefox, python])
        check.tell(stories.pictures_arrive, [firefox, chromium])
        check.tell(stories.messages_arrive, [firefox, python])


def tell_of_codecs(check, python, chromium, other, firefox=None):
    for single in check.modes:
        for codec in ("vp9", "av1"):
            check.tell(codecs_of_clients.a_codec_arrives, [chromium, other, python, *([firefox] if firefox else [])], single, codec=codec)
            check.tell(codecs_of_clients.layers_of_a_codec_change, [chromium, other, python], single, codec=codec)
        for codec in ("h264", "vp9", "av1"):
            check.tell(codecs_of_clients.a_codec_arrives, [python, chromium], single, codec=codec)
        check.tell(codecs_of_clients.a_backup_codec_is_sent_while_it_is_needed, [chromium, python, other], single, codec="vp9")
    for codec in ("vp9", "av1"):
        check.tell(codecs_of_clients.a_codec_is_recorded, [chromium], codec=codec)
        for mode in scalability_modes.modes_of(chromium, codec):
            check.tell(scalability_modes.a_scalability_mode_arrives, [chromium, other], codec=codec, mode=mode)


def tell_of_crowds(check, python, chromium):
    for single in check.modes:
        check.tell(crowds.fifty_tracks_arrive, [chromium, python], single)
    if check.only not in (None, crowds.twenty_mute_and_unmute.__name__):
        return
    with ExitStack() as ends:
        others = [crowds.Member(f"python-{number}") for number in range(19)]
        for client in others:
            ends.callback(client.close)
        for single in check.modes:
            check.tell(crowds.twenty_mute_and_unmute, [chromium, *others], single)


def tell_of_the_embedded_plane(check, network, python, chromium, other, firefox=None):
    """Scenarios of the embedded media plane: it stops with the server, and clients connect to it directly."""
    shares = [(0.05, 0.02)] if check.is_core else [(0.01, 0.01), (0.05, 0.02), (0.1, 0.07)]
    # A LiveKit server ends the session of such a client.
    check.tell(reconnects.connections_come_back, [chromium, python], scenario="server-leave")
    for single in check.modes if not check.is_core else ():
        for clients in ([chromium, python], [python, chromium]):
            check.tell(metadata_and_data_tracks.own_metadata_is_seen, clients, single)
            check.tell(metadata_and_data_tracks.data_tracks_arrive, clients, single)
    for single in check.modes:
        check.tell(reconnects.the_server_comes_back, [chromium, python], single)
    for loss, most_concealed in shares:
        lossy = Conditions(loss=loss)
        check.tell(poor_networks.losses_are_repaired, [chromium, other], True, network, lossy, most_concealed=most_concealed)
    blocked = Conditions(has_udp=False)
    for single in check.modes:
        check.tell(poor_networks.tcp_is_used, [chromium, other], single, network, blocked)
    if check.is_core:
        return
    losses.tell(check, network, python, chromium, other, firefox)
    check.tell(poor_networks.an_outage_is_survived, [chromium, other], True, network, Conditions(), seconds=8)
    check.tell(poor_networks.bandwidth_decides, [chromium, other], True, network, Conditions(), bits_per_second=500_000)


def tell_of_relays(check, built, hooks, _python, chromium, other, firefox=None):
    """Scenarios in which only a TURN server can be reached."""
    kinds = [relay.OwnRelay, *([relay.Relay] if relay.is_installed() else [])]
    for kind, transport in itertools.product(kinds, ("udp", "tcp")):
        with ExitStack() as ends:
            turn = kind(transport)
            ends.callback(turn.stop)
            server = CallServer(built, hooks, network=turn)
            ends.callback(server.stop)
            for single in (True, False):
                check.tell(relay.media_is_relayed, [chromium, other], single, server, transport=transport)
            if firefox and kind is relay.OwnRelay:
                check.tell(relay.media_is_relayed, [chromium, firefox], True, server, transport=transport)


def tell_of_port_443(check, built, pages, hooks):
    """Scenarios in which only TCP 443 can be reached, in network namespaces."""
    if check.only not in (None, only_443.media_goes_by_443.__name__):
        return
    if not only_443.is_possible():
        print("skipped the network that has only port 443: network namespaces or openssl are missing", flush=True)
        return
    with ExitStack() as ends:
        ports = free_port(), free_port()
        network = only_443.Only443(pages, ports[0])
        ends.callback(network.stop)
        server = CallServer(built, hooks, network=network, ports=ports)
        ends.callback(server.stop)
        # The certificate was issued by the check.
        flags = ["--ignore-certificate-errors"]
        clients = [Browser("chromium", pages, name, network.around(), flags) for name in ("behind-443", "also-behind-443")]
        for client in clients:
            ends.callback(client.close)
        for single in check.modes:
            check.tell(only_443.media_goes_by_443, clients, single, server)


def main():
    chosen = options()
    built, pages, hooks = preparation.program(), Pages(), Receiver().url
    with ExitStack() as ends:
        livekit = None
        if chosen.livekit_server:
            folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="conclave-livekit-")))
            livekit = LiveKit(chosen.livekit_server, folder, ends.enter_context((folder / "livekit.log").open("w")))
            ends.callback(livekit.stop)
        server = CallServer(built, hooks, livekit)
        ends.callback(server.stop)
        clients = [Native("python"), Browser("chromium", pages, "chromium"), Browser("chromium", pages, "another-chromium")]
        has_firefox = preparation.has_firefox() and not chosen.core
        clients += [Browser("firefox", pages, "firefox")] if has_firefox else []
        for client in clients:
            ends.callback(client.close)
        check = Check(server, chosen.only, chosen.client, chosen.core)
        tell_all(check, chosen.leaves, *clients)
        if not chosen.core and not chosen.livekit_server:
            tell_of_codecs(check, *clients)
        if not chosen.livekit_server:
            network = CallServer(built, hooks, network=Network())
            ends.callback(network.stop)
            tell_of_the_embedded_plane(check, network, *clients)
            if not chosen.core:
                tell_of_relays(check, built, hooks, *clients)
                tell_of_port_443(check, built, pages, hooks)
    if not chosen.core and not relay.is_installed():
        print("skipped coturn, which is not installed", flush=True)
    if not chosen.core and not preparation.has_firefox():
        print("skipped Firefox, which is not installed", flush=True)
    # The SDK's threads do not end by themselves.
    os._exit(check.telling.end())

