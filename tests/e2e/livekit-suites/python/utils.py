"""The module `utils` that the tests of LiveKit's Python SDK import, and that its package lacks. The file is copied beside the tests."""

import asyncio
import os
import uuid

import pytest
from livekit import api, rtc

NEEDED = ("LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET")
# Time limit for an event in seconds.
LIMIT = 15.0
POLL = 0.05


def skip_if_no_credentials():
    missing = [name for name in NEEDED if not os.environ.get(name)]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not set")


def unique_room_name(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def create_token(identity, room_name):
    token = api.AccessToken(os.environ["LIVEKIT_API_KEY"], os.environ["LIVEKIT_API_SECRET"])
    grants = api.VideoGrants(room_join=True, room=room_name)
    return token.with_identity(identity).with_name(identity).with_grants(grants).to_jwt()


async def connect_room(identity, room_name, room=None, options=None):
    room = room or rtc.Room()
    arguments = () if options is None else (options,)
    await room.connect(os.environ["LIVEKIT_URL"], create_token(identity, room_name), *arguments)
    return room


async def wait_until(condition, *, timeout=LIMIT, message="the condition did not come true"):
    deadline = asyncio.get_running_loop().time() + timeout
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(message)
        await asyncio.sleep(POLL)


def expect_room_event(room, event, predicate=None):
    """Returns a future of the room's first matching event."""
    future = asyncio.get_running_loop().create_future()

    def on_event(*arguments):
        if not future.done() and (predicate is None or predicate(*arguments)):
            future.set_result(arguments)
            room.off(event, on_event)

    room.on(event, on_event)
    return future


async def await_event(future, timeout=LIMIT):
    return await asyncio.wait_for(future, timeout)


async def ensure_participants_visible(room, identities, timeout=LIMIT):
    message = f"not all of {identities} are seen"
    await wait_until(lambda: set(identities) <= set(room.remote_participants), timeout=timeout, message=message)


async def ensure_rooms_all_connected(rooms, timeout=LIMIT):
    """Waits until all rooms are connected, and each sees the participants of the others."""
    connected = rtc.ConnectionState.CONN_CONNECTED
    all_connected = lambda: all(room.connection_state == connected for room in rooms)  # noqa: E731
    await wait_until(all_connected, timeout=timeout, message="not all rooms are connected")
    for room in rooms:
        others = [other.local_participant.identity for other in rooms if other is not room]
        await ensure_participants_visible(room, others, timeout)


async def ensure_track_subscribed(room, sid, timeout=LIMIT):
    """Waits until a room receives a track, and returns its publication."""

    def publication():
        published = (participant.track_publications.get(sid) for participant in room.remote_participants.values())
        return next((found for found in published if found and found.track is not None), None)

    await wait_until(lambda: publication() is not None, timeout=timeout, message=f"the track {sid} is not received")
    return publication()


assert_eventually = wait_until


async def publish_dummy_video(source, stop, width=320, height=180, frame_rate=15):
    """Sends frames of one changing colour until `stop` is set."""
    count = 0
    while not stop.is_set():
        frame = bytes([count % 256]) * (width * height * 3 // 2)
        source.capture_frame(rtc.VideoFrame(width, height, rtc.VideoBufferType.I420, frame))
        count += 1
        await asyncio.sleep(1 / frame_rate)
