"""Recordings of encoders: ffmpeg pushes by RTMP, Chromium by WHIP."""

import asyncio

from ..support import preparation
from ..support.browser import Browser, Pages
from ..support.media_files import assert_color, assert_tone, streams
from ..support.pushing import push
from .recorded_call import BLUE, DURATION, RED, Call

PUSHED, PAGED = (RED, 440), (BLUE, 880)


async def video_of(call, identity):
    """Returns the sid of a participant's video."""
    live = await call.request("GET", f"/v1/rooms/{call.room}/participants")
    (tracks,) = (participant["tracks"] for participant in live["participants"] if participant["identity"] == identity)
    return next(track["sid"] for track in tracks if track["kind"] == "video")


async def encoders_are_recorded(conclave):
    """Tiles and audio of both encoders, in a recording of the room and in one of each, and their unchanged tracks."""
    if not preparation.has_chromium():
        return "skipped: Chromium is not installed"
    call = Call(conclave)
    await call.request("POST", "/v1/rooms", {"name": call.room})

    async def endpoint(kind):
        made = await call.request("POST", f"/v1/rooms/{call.room}/ingress", {"input_type": kind, "participant_identity": kind})
        return made["ingress_id"], made["url"].replace("REDACTED", made["stream_key"])

    async def publishes(ingress):
        for _ in range(100):
            if (await call.request("GET", f"/v1/ingress/{ingress}"))["status"] == "publishing":
                return
            await asyncio.sleep(0.2)
        raise AssertionError("an encoder does not publish")

    (rtmp, rtmp_url), (whip, whip_url) = await endpoint("rtmp"), await endpoint("whip")
    browser = Browser("chromium", Pages(), "chromium")
    act = lambda action, **options: asyncio.to_thread(browser.call, action, **options)
    try:
        async with call:
            with push(rtmp_url, *PUSHED):
                await act("whip", url=whip_url, codec="vp8", color=" ".join(map(str, PAGED[0])), tone=PAGED[1])
                await asyncio.gather(publishes(rtmp), publishes(whip))
                await asyncio.sleep(2)
                of = [{"type": "room_composite", "layout": "grid"}] + [{"type": "participant", "identity": name} for name in ("rtmp", "whip")]
                of += [{"type": "track", "track_id": await video_of(call, name), "filepath": f"{name}.mkv"} for name in ("rtmp", "whip")]
                done = await asyncio.gather(*(call.record(10, **what) for what in of))
                await act("whipStop")
    finally:
        browser.close()
    room, *each = (file for file, _ in done)
    for file, expected in zip((room, *each), (["h264", "aac"],) * 3 + (["h264"], ["vp8"])):
        codecs, duration = streams(file)
        assert codecs == expected and abs(duration - 10) < DURATION, (file.name, codecs, duration)
    for x, (color, tone) in zip((0.25, 0.75), (PUSHED, PAGED)):
        assert_color(room, 7, x, 0.5, color)
        assert_tone(room, 7, tone)
    for file, (color, _) in zip(each, (PUSHED, PAGED) * 2):
        assert_color(file, 7, 0.5, 0.5, color)
    for file, (_, tone), (_, other) in zip(each, (PUSHED, PAGED), (PAGED, PUSHED)):
        assert_tone(file, 7, tone, (other,))
    return "two colors and two tones in one file, one of each in two, and two tracks"


STORIES = [encoders_are_recorded]
