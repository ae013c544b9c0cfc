"""Scalability modes of VP9 and AV1: how many spatial and temporal layers are in one stream, and what they depend on."""

import itertools
import re
import time

from ..support.telling import wait_for
from ..support.watching import frames, sees
from .codecs_of_clients import change_layers, layers_sent, sent_pictures, share_of_frames
from .stories import WATCH

# The height of the video that is published.
FULL = 540
# The qualities that a subscriber can ask for, by the number of spatial layers. livekit-client 2.23 sends one stream in these modes, also if
# that has one layer.
QUALITIES = {"1": ("HIGH",), "2": ("HIGH", "LOW"), "3": ("HIGH", "MEDIUM", "LOW")}
# By how much a layer is smaller than the next one, by the end of the mode's name.
RATIOS = {"": 2, "_KEY": 2, "h": 1.5}
# With one spatial layer, the other names mean the same.
ALL = [f"L1T{temporal}" for temporal in (1, 2, 3)]
ALL += [f"L{spatial}T{temporal}{end}" for spatial, temporal, end in itertools.product((2, 3), (1, 2, 3), RATIOS)]


def modes_of(client, codec):
    """The modes that a browser can send with a codec."""
    modes = client.call("scalabilityModes", codec=codec, modes=ALL)
    assert {"L1T3", "L3T3_KEY"} <= set(modes), f"{client.name} has of the modes of {codec} only {modes}"
    return modes


def heights(mode):
    """The heights of a mode's layers by the qualities that a subscriber can ask for."""
    spatial, end = re.fullmatch(r"L(\d)T\d(.*)", mode).groups()
    return {quality: FULL / RATIOS[end] ** below for below, quality in enumerate(QUALITIES[spatial])}


def a_scalability_mode_arrives(call, codec, mode):
    """A receiver gets each layer that it asks for. It decodes the frames that are sent, and sees no freeze."""
    publisher, receiver = call.clients
    publisher.call("publish", codec=codec, mode=mode, simulcast=True)
    of_mode = heights(mode)
    wait_for("the best layer", lambda: sees(receiver, publisher, of_mode["HIGH"]))
    layers = layers_sent(publisher)
    assert {layer["scalabilityMode"] for layer in layers} == {mode}, layers
    # A browser begins with the lower layers, and counts the frames of the others as well.
    time.sleep(2)
    decoded, frozen = frames(receiver, publisher)
    before = decoded, sent_pictures(publisher)
    lower = [quality for quality in of_mode if quality != "HIGH"]
    slowest = change_layers(receiver, publisher, of_mode, [one for below in lower * 2 for one in (below, "HIGH")])
    if not lower:
        time.sleep(WATCH)
    share = share_of_frames(publisher, receiver, before, sent_pictures)
    freezes = frames(receiver, publisher)[1] - frozen
    assert freezes == 0, f"{freezes} freezes"
    changes = f"{len(lower) * 4} changes, the slowest after {slowest:.1f} s; " if lower else ""
    return f"{changes}{share:.0%} of the frames"
