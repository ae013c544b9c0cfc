"""Scenarios on networks with packet loss, low bandwidth, or without UDP."""

import time

from ..support.telling import wait_for
from ..support.watching import frames, inbound, wait_for_more_video, wait_for_video
from .stories import BEST, wait_for_ordered_messages

# Observation time of a poor network in seconds.
WATCH = 10
# Largest share of concealed audio after a drop in bandwidth.
CONCEALED = 0.03


def tcp_is_used(call):
    """Where UDP is blocked, media arrives by TCP."""
    sender, receiver = call.clients
    for client in call.clients:
        client.call("publish")
    wait_for_video(sender, receiver)
    protocols = [client.call("route")["protocol"] for client in call.clients]
    assert protocols == ["udp", "tcp"], protocols
    return "instead of UDP"


def an_outage_is_survived(call, seconds):
    """One client's network fails for a while: afterwards video continues, and reliable messages have arrived once and in order."""
    for client in call.clients:
        client.call("publish")
    wait_for_video(*call.clients)
    for client in call.clients:
        client.call("send", text="{n}", topic="ordered", count=500, interval=10)
    call.conditions.has_udp = False
    time.sleep(seconds)
    call.conditions.has_udp, begun = True, time.monotonic()
    wait_for_more_video(*call.clients)
    wait_for_ordered_messages(call, 500)
    return f"all is there {time.monotonic() - begun:.1f} s later"


def losses_are_repaired(call, most_concealed):
    """Video continues, and redundancy repairs the audio unless two packets in a row are lost."""
    sender, receiver = call.clients
    sender.call("publish", simulcast=True)
    wait_for("sound and pictures", lambda: frames(receiver, sender)[0] > 15 and made_up(receiver, sender)[1] > 0)
    decoded, begun = frames(receiver, sender)[0], made_up(receiver, sender)
    time.sleep(WATCH)
    rate = (frames(receiver, sender)[0] - decoded) / WATCH
    concealed, total = (after - before for after, before in zip(made_up(receiver, sender), begun))
    assert total > WATCH * 40_000, f"{total} samples in {WATCH} s"
    assert concealed <= most_concealed * total, f"{concealed / total:.1%} of the sound is made up"
    assert rate >= 5, f"{rate:.1f} frames per second"
    return f"{concealed / total:.2%} of the sound is made up, {rate:.0f} frames per second"


def made_up(client, publisher):
    """Returns the number of concealed audio samples, and of all samples."""
    audio = inbound(client, publisher, "audio")
    return (audio["concealedSamples"] or 0) - (audio["silentConcealedSamples"] or 0), audio["totalSamplesReceived"] or 0


def bandwidth_decides(call, bits_per_second):
    """A slow network gets a lower layer, and audio without gaps; once it is fast again, the best layer."""
    sender, receiver = call.clients
    sender.call("publish", simulcast=True, busy=True)
    height = lambda: inbound(receiver, sender)["frameHeight"] or 0
    wait_for("the best layer", lambda: height() == BEST)
    call.conditions.bits_per_second, begun = bits_per_second, time.monotonic()
    wait_for("a lower layer", lambda: 0 < height() < BEST, 30)
    dropped = time.monotonic() - begun
    time.sleep(3)
    before, samples = frames(receiver, sender)[0], made_up(receiver, sender)
    time.sleep(WATCH)
    decoded = (frames(receiver, sender)[0] - before) / WATCH
    concealed, total = (after - before for after, before in zip(made_up(receiver, sender), samples))
    assert decoded >= 10, f"{decoded:.1f} frames per second"
    assert total > WATCH * 40_000 and concealed <= CONCEALED * total, f"{concealed} of {total} samples are made up"
    call.conditions.bits_per_second, begun = 0, time.monotonic()
    wait_for("the best layer again", lambda: height() == BEST, 60)
    return f"lower after {dropped:.1f} s, best again after {time.monotonic() - begun:.1f} s"
