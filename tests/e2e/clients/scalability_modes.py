"""Scalability modes of VP9 and AV1: the number of spatial and temporal layers in one stream, and their dependencies."""

import itertools
import re
import time

from ..support.telling import wait_for
from ..support.watching import frames, sees
from .codecs_of_clients import change_layers, layers_sent, sent_pictures, share_of_frames
from .stories import WATCH

# Height of the published video.
FULL = 540
# Qualities that a subscriber can request, by the number of spatial layers. livekit-client 2.23 sends one stream in these modes, even
# with a single layer.
QUALITIES = {"1": ("HIGH",), "2": ("HIGH", "LOW"), "3": ("HIGH", "MEDIUM", "LOW")}
# Ratio between the heights of adjacent layers, by the end of the mode's name.
RATIOS = {"": 2, "_KEY": 2, "h": 1.5}
# With one spatial layer, the other names are synonyms.
ALL = [f"L1T{temporal}" for temporal in (1, 2, 3)]
ALL += [f"L{spatial}T{temporal}{end}" for spatial, temporal, end in itertools.product((2, 3), (1, 2, 3), RATIOS)]


def modes_of(client, codec):
    """Returns the modes that a browser can send with a codec."""
    modes = client.call("scalabilityModes", codec=codec, modes=ALL)
    assert {"L1T3", "L3T3_KEY"} <= set(modes), f"{client.name} has of the modes of {codec} only {modes}"
    return modes


def heights(mode):
    """Returns the heights of a mode's layers, by the qualities that a subscriber can request."""
    spatial, end = re.fullmatch(r"L(\d)T\d(.*)", mode).groups()
    return {quality: FULL / RATIOS[end] ** below for below, quality in enumerate(QUALITIES[spatial])}


def a_scalability_mode_arrives(call, codec, mode):
    """A receiver gets each requested layer. It decodes all sent frames, without a freeze."""
    publisher, receiver = call.clients
    publisher.call("publish", codec=codec, mode=mode, simulcast=True)
    of_mode = heights(mode)
    wait_for("the best layer", lambda: sees(receiver, publisher, of_mode["HIGH"]))
    layers = layers_sent(publisher)
    assert {layer["scalabilityMode"] for layer in layers} == {mode}, layers
    # A browser starts with the lower layers, and counts frames of the other layers as well.
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
