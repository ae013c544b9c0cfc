"""Codecs: video from each client with each of its codecs, and the layers that other clients receive."""

import time

from ..support.media_files import color, run, streams
from ..support.telling import wait_for
from ..support.watching import frames, has_height, inbound, sees
from .stories import DECODED, WATCH, published_codecs, sent

# Heights of the spatial layers of a browser's video, for the codecs with all layers in one stream.
HEIGHTS = {"LOW": 136, "MEDIUM": 270, "HIGH": 540}
# Duration of a recording in seconds.
RECORDED = 10
# Time limit for the end of a recording in seconds.
ENDED = 60
# ffmpeg's own VP9 decoder returns the frames of all spatial layers.
DECODERS = {"vp9": ("-c:v", "libvpx-vp9")}


def layers_sent(publisher):
    return [layer for layer in publisher.call("stats")["outbound"] if layer["kind"] == "video"]


def sent_pictures(publisher, height=None):
    """Returns the number of sent frames, in the layer of this height if that layer is a stream of its own."""
    layers = layers_sent(publisher)
    fitting = [layer for layer in layers if height and has_height(layer, height)]
    return max(layer["framesSent"] or 0 for layer in fitting or layers)


def share_of_frames(publisher, receiver, before, count=sent):
    """Returns the share of the frames sent since then that a receiver has decoded. The two counters are not read at the same moment."""
    (decoded, sent_before), now = before, (frames(receiver, publisher)[0], count(publisher))
    share = (now[0] - decoded) / max(1, now[1] - sent_before)
    counted = f"{now[0] - decoded} of {now[1] - sent_before}"
    received = {name: value for name, value in inbound(receiver, publisher).items() if value}
    assert share >= DECODED - 2 / (WATCH * 15), f"{receiver.name} decoded {share:.0%} of the frames of {publisher.name}, {counted}: {received}"
    return share


def change_layers(receiver, publisher, heights, qualities):
    """Requests one layer after another for a receiver, which must get each. Returns the duration of the slowest change in seconds."""
    slowest = 0
    for quality in qualities:
        begun = time.monotonic()
        receiver.call("quality", identity=publisher.name, quality=quality)
        wait_for(quality, lambda quality=quality: sees(receiver, publisher, heights[quality]))
        slowest = max(slowest, time.monotonic() - begun)
        time.sleep(1)
    return slowest


def a_codec_arrives(call, codec):
    """Other clients decode a client's video in a codec, without a freeze."""
    publisher, *receivers = call.clients
    publisher.call("publish", codec=codec, simulcast=True)
    for receiver in receivers:
        wait_for(f"video at {receiver.name}", lambda receiver=receiver: frames(receiver, publisher)[0] > 0)
    # Before it sends all layers, a browser also counts the frames of inactive layers.
    if publisher.kind == "chromium":
        wait_for("all layers", lambda: all(layer["frameHeight"] == HEIGHTS["HIGH"] for layer in layers_sent(publisher)))
    time.sleep(2)
    before = [(frames(receiver, publisher)[0], sent(publisher)) for receiver in receivers]
    time.sleep(WATCH)
    shares = [share_of_frames(publisher, *pair) for pair in zip(receivers, before)]
    kinds = published_codecs(call, publisher)
    assert set(kinds) == {f"video/{codec}"}, kinds
    return f"{min(shares):.0%} of the frames at least"


def layers_of_a_codec_change(call, codec):
    """A receiver gets the spatial layer that it requests, while another receiver gets all, and neither loses a frame."""
    publisher, receiver, other = call.clients
    publisher.call("publish", codec=codec, simulcast=True)
    wait_for("the best layer", lambda: inbound(receiver, publisher)["frameHeight"] == HEIGHTS["HIGH"])
    wait_for(f"video at {other.name}", lambda: frames(other, publisher)[0] > 0)
    time.sleep(WATCH)
    before = {client: (frames(client, publisher)[0], sent(publisher)) for client in (receiver, other)}
    frozen = frames(receiver, publisher)[1]
    slowest = change_layers(receiver, publisher, HEIGHTS, ("LOW", "HIGH", "MEDIUM", "LOW", "MEDIUM", "HIGH") * 2)
    shares = [share_of_frames(publisher, client, before[client]) for client in (receiver, other)]
    freezes = frames(receiver, publisher)[1] - frozen
    assert freezes == 0, f"{freezes} freezes"
    return f"12 changes, the slowest after {slowest:.1f} s; {min(shares):.0%} of the frames at least"


def a_backup_codec_is_sent_while_it_is_needed(call, codec):
    """A client that cannot decode a video gets it in VP8, which the publisher sends until no client needs it; others see no difference."""
    publisher, capable, lacking = call.clients
    call.join(publisher, dynacast=True)
    call.join(lacking, without=codec)
    publisher.call("publish", codec=codec, backup="vp8", simulcast=True)
    sent_as = lambda layers: sum(layer["framesSent"] or 0 for layer in layers if layer["frameHeight"] == HEIGHTS["HIGH"])
    backups = lambda: publisher.call("stats")["backups"]
    for receiver, expected in ((capable, codec), (lacking, "vp8")):
        wait_for(f"video at {receiver.name}", lambda receiver=receiver: frames(receiver, publisher)[0] > 0)
        got = inbound(receiver, publisher)["codec"]
        assert receiver.kind != "chromium" or got == f"video/{expected}", (receiver.name, got)
    wait_for("the best layer", lambda: sees(lacking, publisher, HEIGHTS["HIGH"]))
    # Both videos start with a low resolution.
    time.sleep(WATCH)
    before = frames(capable, publisher)[0], sent(publisher)
    decoded, sent_before = frames(lacking, publisher)[0], sent_as(backups())
    time.sleep(WATCH)
    share = (frames(lacking, publisher)[0] - decoded) / max(1, sent_as(backups()) - sent_before)
    assert share >= DECODED - 2 / (WATCH * 15), f"{lacking.name} decoded {share:.0%} of the frames in VP8"
    of_first = share_of_frames(publisher, capable, before)
    kinds = published_codecs(call, publisher)
    assert kinds == [f"video/{codec}"], kinds
    lacking.call("leave")
    wait_for("the end of what nobody needs", lambda: not any(layer["active"] for layer in backups()))
    decoded = frames(capable, publisher)[0]
    wait_for("more of the first codec", lambda: frames(capable, publisher)[0] > decoded + 10)
    return f"{share:.0%} of the frames in VP8, {of_first:.0%} of those in {codec}"


def a_codec_is_recorded(call, codec):
    """A track's recording contains that track, and the room's recording shows it."""
    publisher = call.clients[0]
    publisher.call("publish", codec=codec, simulcast=True)
    tracks = lambda: call.conclave.request("GET", f"/v1/rooms/{call.room}/participants/{publisher.name}")["tracks"]
    track = wait_for("the video", lambda: next((one for one in tracks() if one["kind"] == "video"), None))
    start = lambda **body: call.conclave.request("POST", f"/v1/rooms/{call.room}/recordings", body)
    recordings = [start(type="track", track_id=track["sid"]), start(type="room_composite")]
    time.sleep(RECORDED)
    for recording in recordings:
        call.conclave.request("POST", f"/v1/recordings/{recording['egress_id']}/stop")
    final = ("complete", "failed", "aborted", "limit_reached")
    look = lambda recording: call.conclave.request("GET", f"/v1/recordings/{recording['egress_id']}")
    ended = [wait_for("the end of a recording", lambda one=one: (now := look(one))["status"] in final and now, ENDED) for one in recordings]
    assert {one["status"] for one in ended} == {"complete"}, ended
    alone, composed = [call.conclave.file_of(one) for one in ended]
    codecs, duration = streams(alone)
    assert codecs == [codec] and duration > RECORDED / 2, (codecs, duration)
    pictures = run("ffmpeg", "-v", "error", *DECODERS.get(codec, ()), "-i", alone, "-vf", "scale=8:8,format=gray", "-vsync", "passthrough", "-f", "rawvideo", "-")
    assert len(pictures) // 64 >= duration * 5, f"{len(pictures) // 64} pictures in {duration} s"
    assert max(color(composed, streams(composed)[1] * 0.8, 0.4, 0.4)) > 40, "the room is black"
    return f"{len(pictures) // 64} pictures in {duration} s"
