"""Codecs on a network with packet loss: each client sends to others with each common codec, and receives as well."""

import itertools
import time
from contextlib import ExitStack

from ..support.sdks import Missing
from ..support.telling import wait_for
from ..support.watching import frames, sees
from . import program, videos
from .codecs_of_clients import sent_pictures, share_of_frames
from .network import Conditions
from .stories import WATCH, published_codecs

CODECS = ("vp8", "h264", "vp9", "av1")
# Share of lost packets in each direction: for the receiver, and for a publisher other than Chromium.
LOSS = 0.05
# Heights of the best and the worst layer, if a client sends several: as separate streams (simulcast), or in one (SVC).
SIMULCAST, SVC, VIDEOS = (540, 180), (540, 136), (360, 90)
LAYERS = {
    "chromium": {"vp8": SIMULCAST, "h264": SIMULCAST, "vp9": SVC, "av1": SVC},
    "firefox": {"vp8": SIMULCAST, "h264": SIMULCAST},
    "python": {"vp9": (360, 180)},
    "node": {"vp9": (360, 180)},
    "go": dict.fromkeys(videos.ENCODERS, VIDEOS),
}
# Clients that request layers: the Node.js SDK has no call for it. Go has no decoder, and cannot report the received layer.
ASKING, TELLING = {"chromium", "firefox", "python", "go"}, {"chromium", "firefox", "python"}
# Duration of each requested layer in seconds.
LAYER = 3


def a_codec_survives_losses(call, codec):
    """Despite packet loss, the frames are decoded, through a change of the publisher's role and of the layers."""
    publisher, receiver = call.clients
    publisher.call("publish", codec=codec, simulcast=True)
    best, worst = LAYERS[publisher.kind].get(codec) or (None, None)
    layers = [("LOW", worst), ("HIGH", best)] if best and receiver.kind in ASKING else []
    wait_for("video", lambda: frames(receiver, publisher)[0] > 0)
    if layers:
        wait_for_height(call, "the best layer", best)
    time.sleep(WATCH)
    sent = SentPictures(publisher, best)
    before = frames(receiver, publisher)[0], 0
    time.sleep(WATCH)
    call.conclave.request("POST", f"/v1/rooms/{call.room}/participants/{publisher.name}/role", {"role": "guest"})
    for quality, height in layers:
        receiver.call("quality", identity=publisher.name, quality=quality)
        wait_for_height(call, quality, height)
        sent.go_on_with(height)
    time.sleep(WATCH)
    share = share_of_frames(publisher, receiver, before, lambda _: sent.count())
    kinds = published_codecs(call, publisher)
    assert set(kinds) == {f"video/{codec}"}, kinds
    return f"{share:.0%} of the frames{', with a change of layers' if layers else ''}"


class SentPictures:
    """Counts a publisher's sent frames in the layer that its receiver gets: Firefox skips some frames in the lower layers."""

    def __init__(self, publisher, height):
        self.publisher, self.before = publisher, 0
        self.begin(height)

    def begin(self, height):
        self.height, self.begun = height, sent_pictures(self.publisher, height)

    def count(self):
        return self.before + sent_pictures(self.publisher, self.height) - self.begun

    def go_on_with(self, height):
        """Continues with another layer's frames."""
        self.before = self.count()
        self.begin(height)


def wait_for_height(call, what, height):
    """Waits until the receiver gets the layer of this height; a client that cannot report it gets some time."""
    publisher, receiver = call.clients
    if receiver.kind in TELLING:
        wait_for(what, lambda: sees(receiver, publisher, height))
    else:
        time.sleep(LAYER)


def calls(python, chromium, other, firefox, node, go, another_go):
    """Yields the pairs of publisher and receiver, with their codecs."""
    yield chromium, other, CODECS
    yield chromium, python, CODECS
    yield python, chromium, CODECS
    if firefox:
        has = firefox.call("codecs")
        yield chromium, firefox, [codec for codec in CODECS if codec in has["receives"]]
        yield firefox, chromium, [codec for codec in CODECS if codec in has["sends"]]
        if go:
            yield go, firefox, [codec for codec in ("av1",) if codec in has["receives"]]
    if node:
        yield chromium, node, CODECS
        yield node, chromium, CODECS
    if go:
        yield chromium, go, CODECS
        yield go, chromium, CODECS
        # No other client has H.265.
        yield go, another_go, ["h265"]


def programs(ends):
    """Returns the clients of the Node.js and Go SDKs, and a second Go client; an empty list where they cannot be installed."""
    clients = []
    for kind, command, names in (("node", program.node_client, ["node"]), ("go", program.go_client, ["go", "another-go"])):
        try:
            made = command()
        except Missing as missing:
            print(f"skipped the SDK for {kind}: {missing}", flush=True)
            clients += [None for _ in names]
            continue
        for name in names:
            clients.append(program.Program(kind, name, made))
            ends.callback(clients[-1].close)
    return clients


def tell(check, network, python, chromium, other, firefox=None):
    """Runs the scenario for each pair and codec, in each connection mode."""
    if check.only not in (None, a_codec_survives_losses.__name__):
        return
    with ExitStack() as ends:
        pairs = list(calls(python, chromium, other, firefox, *programs(ends)))
        for single, (publisher, receiver, codecs) in itertools.product(check.modes, pairs):
            for codec in codecs:
                lossy = Conditions(loss=LOSS, are_for_all=publisher.kind != "chromium")
                check.tell(a_codec_survives_losses, [publisher, receiver], single, network, lossy, codec=codec)
