"""Recordings of a call's tracks, participants and layouts, from the first moment to the last."""

import asyncio
import os
import subprocess
import sys
import time

from livekit import rtc

from ..support.media_files import (
    SAMPLES_PER_SECOND,
    SILENCE,
    assert_color,
    assert_silence,
    assert_tone,
    begin,
    blueness,
    color,
    durations,
    onsets,
    samples,
    streams,
    strength,
)
from .recorded_call import (
    BEAT,
    BEAT_LENGTH,
    BLUE,
    DURATION,
    FRAMES_PER_SECOND,
    GREEN,
    HEIGHT,
    RED,
    WIDTH,
    Call,
    Participant,
)

# Largest difference between audio and video in seconds.
APART = 0.08
RECORDED_FRAMES_PER_SECOND = 30


async def tracks_are_recorded_as_they_are(conclave):
    """VP8 in WebM, H264 in MP4, Opus in Ogg, and an existing name is not reused. A call's audio alone is Ogg, too."""
    async with Call(conclave, ("alice", RED, 440), ("bob", BLUE, 880, False, "h264")) as call:
        alice, bob = call.participants
        kinds = {"vp8": (alice.camera.sid, "a.webm"), "h264": (bob.camera.sid, "b.mp4"), "opus": (alice.microphone.sid, "a.ogg")}
        record = lambda sid, name: call.record(5, type="track", track_id=sid, filepath=f"{call.room}/{name}")
        audio = call.record(5, type="room_composite", audio_only=True)
        done = await asyncio.gather(*(record(*kind) for kind in kinds.values()), audio, record(alice.camera.sid, "a.webm"))
        for codec, (file, _) in zip((*kinds, "opus"), done):
            codecs, duration = streams(file)
            assert codecs == [codec] and abs(duration - 5) < DURATION, (codec, codecs, duration)
        names = sorted(record["filepath"].split("/")[-1] for _, record in done)
        mixed = names.pop()
        assert names == ["a-2.webm", "a.ogg", "a.webm", "b.mp4"] and mixed.endswith(".ogg"), (names, mixed)
        assert_color(done[0][0], 3, 0.5, 0.5, RED)
        assert_color(done[1][0], 3, 0.5, 0.5, BLUE)
        assert_tone(done[2][0], 2, 440)
        for tone in (440, 880):
            assert_tone(done[3][0], 3, tone)
    return "VP8, H264 and Opus"


async def a_grid_is_recorded(conclave):
    """Tiles with the correct colors, all tones, and a participant who joins in the middle."""
    async with Call(conclave, ("alice", RED, 440), ("bob", BLUE, 880, False, "h264")) as call:
        late = Participant(conclave, call.room, "carol", GREEN, 1320)

        async def join_late():
            await asyncio.sleep(6)
            call.participants.append(await (await late.join()).publish())

        joining = asyncio.create_task(join_late())
        file, record = await call.record(12, type="room_composite", layout="grid")
        await joining
        codecs, duration = streams(file)
        assert codecs == ["h264", "aac"] and abs(duration - 12) < DURATION, (codecs, duration)
        assert_color(file, 4, 0.25, 0.5, RED)
        assert_color(file, 4, 0.75, 0.5, BLUE)
        # Three participants form two rows.
        assert_color(file, 11, 0.5, 0.25, RED)
        assert_color(file, 11, 0.25, 0.75, BLUE)
        assert_color(file, 11, 0.75, 0.75, GREEN)
        for tone in (440, 880, 1320):
            assert_tone(file, 11, tone, (1000,))
    return record["filepath"].split(".")[-1]


async def audio_and_video_are_together(conclave, seconds=64):
    """A flash and its tone are less than 80 ms apart, even at the end."""
    async with Call(conclave, ("alice", RED, 440, True)) as call:
        file, _ = await call.record(seconds, type="participant", identity="alice", filepath=f"{call.room}.webm")
        flashes, tones = onsets(file)
        # A tone is detected by the preceding silence, which may be missing before the file's first beat.
        apart = [min((distance(tone, flash) for tone in tones), key=abs) for flash in flashes if flash[1] > BEAT_LENGTH + SILENCE]
        assert len(flashes) >= seconds / BEAT - 2, f"only {len(flashes)} flashes"
        assert all(abs(difference) < APART for difference in apart), apart
    return f"at most {max(map(abs, apart)) * 1000:.0f} ms apart in {len(apart)} beats"


def distance(tone, flash):
    """Returns the delay of a flash after a tone. A busy machine skips frames: the flash may have started with any skipped frame."""
    before, shown = flash
    return min(max(tone, before + 1 / RECORDED_FRAMES_PER_SECOND), shown) - tone


async def who_leaves_or_mutes_is_recorded_to_the_end(conclave):
    """The last 0.8 s, by which the recording lags behind the call, are seen and heard, and the growing tile keeps its aspect ratio."""
    ended = []
    for does_leave in (True, False):
        async with Call(conclave, ("alice", RED, 440, True), ("bob", BLUE, 880)) as call:
            bob = call.participants[1]
            recording = await call.start(type="room_composite", layout="grid", filepath=f"{call.room}.webm")
            await asyncio.sleep(4)
            # One second after alice's white frames started.
            await asyncio.sleep(BEAT - (time.time() - 1) % BEAT)
            if does_leave:
                await bob.leave()
                call.participants.remove(bob)
            else:
                bob.camera_track.mute()
                bob.microphone_track.mute()
            await asyncio.sleep(4)
            file = conclave.file_of(await call.stop(recording))
        heard = samples(file)
        steps = range(0, len(heard) - 960, 960)
        sounds = lambda tone: [at / SAMPLES_PER_SECOND for at in steps if strength(heard[at : at + 960], tone) > 200]
        beats, last = sounds(440), sounds(880)[-1] + 0.02
        begun = [at for at, before in zip(beats, [0, *beats]) if at - before > 1 and at < last]
        moment = begun[-1] + 1
        pictures = blueness(file, "iw/8:ih/8:iw*3/4:ih*7/16")
        blue = max(at for at, blue in pictures if blue > 150)
        after = min(at for at, _ in pictures if at > blue)
        assert abs(last - moment) < 0.15, f"the sound ends at {last} s instead of {moment} s"
        # A busy machine skips frames.
        assert blue - 0.15 < moment < after + 0.15, f"the picture ends between {blue} s and {after} s instead of at {moment} s"
        ended += [last - moment]
        if does_leave:
            # Alice immediately fills the frame, without bars above and below: those would have been stretched.
            assert_color(file, after, 0.5, 0.1, RED)
    return "within " + ", ".join(f"{difference * 1000:.0f}" for difference in ended) + " ms"


async def the_speaker_is_large(conclave):
    async with Call(conclave, ("alice", RED, 440), ("bob", BLUE, 880)) as call:
        alice, bob = call.participants
        bob.loudness = 0

        async def take_turns():
            await asyncio.sleep(7)
            alice.loudness, bob.loudness = 0, 8_000

        turns = asyncio.create_task(take_turns())
        file, _ = await call.record(14, type="room_composite")
        await turns
        assert_color(file, 5, 0.4, 0.5, RED)
        assert_color(file, 5, 0.9, 0.5, BLUE)
        assert_color(file, 13, 0.4, 0.5, BLUE)
        assert_color(file, 13, 0.9, 0.5, RED)
    return "and changes with who speaks"


async def a_participant_is_recorded_across_mutes_and_new_tracks(conclave):
    async with Call(conclave, ("alice", RED, 440)) as call:
        (alice,) = call.participants

        async def change():
            await asyncio.sleep(4)
            alice.camera_track.mute()
            await asyncio.sleep(3)
            alice.camera_track.unmute()
            await asyncio.sleep(3)
            await alice.room.local_participant.unpublish_track(alice.camera.sid)
            alice.color = GREEN
            await alice.publish(microphone=False)

        changes = asyncio.create_task(change())
        file, _ = await call.record(15, type="participant", identity="alice")
        await changes
        _, duration = streams(file)
        assert abs(duration - 15) < DURATION, duration
        assert_color(file, 3, 0.5, 0.2, RED)
        assert_color(file, 9, 0.5, 0.2, RED)
        assert_color(file, 14, 0.5, 0.2, GREEN)
        seen = color(file, 6, 0.5, 0.2)
        assert max(seen) - min(seen) < 60, f"the muted camera is shown: {seen}"
        for at in (2, 6, 14):
            assert_tone(file, at, 440)
    return "one file"


async def unmute_after(call, tracks, seconds):
    """Mutes tracks, and returns a task that unmutes them after a while."""
    for track in tracks:
        track.mute()
    await asyncio.sleep(1)

    async def unmute():
        await asyncio.sleep(seconds)
        for track in tracks:
            track.unmute()

    return asyncio.create_task(unmute())


async def tracks_are_recorded_that_are_muted_at_first(conclave):
    """Files last as long as their recordings: silent, and without video until their track is unmuted, which may never happen."""
    async with Call(conclave, ("alice", RED, 440), ("bob", BLUE, 880, False, "h264")) as call:
        alice, bob = call.participants
        bob.microphone_track.mute()
        unmuting = await unmute_after(call, (alice.camera_track, alice.microphone_track, bob.camera_track), 5)

        async def mute_again():
            # A file does not end before its recording.
            await unmuting
            await asyncio.sleep(4)
            alice.camera_track.mute()

        tracks = {"a.webm": alice.camera, "b.mp4": bob.camera, "a.ogg": alice.microphone, "b.ogg": bob.microphone}
        record = lambda name: call.record(12, type="track", track_id=tracks[name].sid, filepath=f"{call.room}/{name}")
        *done, _ = await asyncio.gather(*map(record, tracks), mute_again())
        webm, mp4, ogg, silent = (file for file, _ in done)
        for file, _ in done:
            assert abs(streams(file)[1] - 12) < DURATION, (file.name, streams(file))
        for file, expected in ((webm, RED), (mp4, BLUE)):
            assert abs(begin(file) - 5) < 1, (file.name, begin(file))
            assert_color(file, 2, 0.5, 0.5, expected)
        assert_silence(ogg, 2)
        assert_tone(ogg, 8, 440)
        assert_silence(silent, 8)
    return f"pictures begin after {begin(webm):.1f} s and {begin(mp4):.1f} s"


async def calls_are_recorded_that_are_muted_at_first(conclave):
    async with Call(conclave, ("alice", RED, 440), ("bob", BLUE, 880, False, "h264")) as call:
        tracks = [track for one in call.participants for track in (one.camera_track, one.microphone_track)]
        unmuting = await unmute_after(call, tracks, 5)
        of = ({"type": "participant", "identity": "alice"}, {"type": "room_composite", "layout": "grid"})
        (participant, _), (room, _), _ = await asyncio.gather(*(call.record(12, **what) for what in of), unmuting)
        for file in (participant, room):
            assert abs(streams(file)[1] - 12) < DURATION, (file.name, streams(file))
            assert_silence(file, 2)
            assert_tone(file, 10, 440)
        for file, x, expected in ((participant, 0.5, RED), (room, 0.25, RED), (room, 0.75, BLUE)):
            seen = color(file, 3, x, 0.3)
            assert max(seen) - min(seen) < 60, f"a muted camera is shown: {seen}"
            assert_color(file, 10, x, 0.3, expected)
    return "two files"


async def a_participant_is_recorded_that_publishes_nothing_at_first(conclave):
    async with Call(conclave) as call:
        alice = await Participant(conclave, call.room, "alice", RED, 440).join()
        call.participants.append(alice)

        async def publish():
            await asyncio.sleep(5)
            await alice.publish()

        publishing = asyncio.create_task(publish())
        file, _ = await call.record(10, type="participant", identity="alice")
        await publishing
        codecs, duration = streams(file)
        assert codecs == ["h264", "aac"] and abs(duration - 10) < DURATION, (codecs, duration)
        seen = color(file, 3, 0.5, 0.2)
        assert max(seen) - min(seen) < 60, seen
        assert_color(file, 9, 0.5, 0.2, RED)
        assert_silence(file, 1)
        assert_tone(file, 9, 440)
    return "one file"


class Phone(Participant):
    """A participant whose frames are rotated, to be displayed turned to the right: red above blue."""

    async def film(self, source):
        row = bytes([*RED, 255]) * (WIDTH // 2) + bytes([*BLUE, 255]) * (WIDTH // 2)
        frame = rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGBA, row * HEIGHT)
        while True:
            source.capture_frame(frame, rotation=rtc.VideoRotation.VIDEO_ROTATION_90)
            await asyncio.sleep(1 / FRAMES_PER_SECOND)


async def a_phone_is_recorded_upright(conclave):
    call = Call(conclave)
    call.participants = [Phone(conclave, call.room, "alice", RED, 440)]
    async with call:
        (alice,) = call.participants
        of = ({"type": "track", "track_id": alice.camera.sid, "filepath": f"{call.room}/a.webm"}, {"type": "participant", "identity": "alice"})
        (track, _), (participant, _) = await asyncio.gather(*(call.record(6, **what) for what in of))
        for file in (track, participant):
            assert_color(file, 4, 0.5, 0.2, RED)
            assert_color(file, 4, 0.5, 0.8, BLUE)
        seen = color(participant, 4, 0.1, 0.5)
        assert max(seen) < 40, f"not narrow: {seen}"
    return "red above blue"


async def a_busy_machine_costs_frames_and_no_audio(conclave):
    """With busy programs beside the server, recordings are complete: all audio, and video of the same duration."""
    async with Call(conclave, ("alice", RED, 440), ("bob", BLUE, 880)) as call:
        video = await call.start(type="room_composite", layout="grid", filepath=f"{call.room}.mp4")
        audio = await call.start(type="room_composite", audio_only=True, filepath=f"{call.room}.ogg")
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range((os.cpu_count() or 1) + 1)]
        try:
            await asyncio.sleep(12)
            stopping = [call.request("POST", f"/v1/recordings/{one['egress_id']}/stop") for one in (video, audio)]
            await asyncio.gather(*stopping)
            ended = [await call.end(one, seconds=120) for one in (video, audio)]
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        assert [one["status"] for one in ended] == ["complete", "complete"], ended
        files = [conclave.file_of(one) for one in ended]
        lasting, heard = durations(files[0]), durations(files[1])["opus"]
        assert abs(lasting["aac"] - 12) < DURATION + 1 and abs(heard - 12) < DURATION + 1, (lasting, heard)
        assert abs(lasting["h264"] - lasting["aac"]) < 0.1, lasting
        for file in files:
            for second in range(2, 11):
                assert_tone(file, second, 440)
                assert_tone(file, second, 880)
        assert_color(files[0], 11, 0.25, 0.5, RED)
        assert_color(files[0], 11, 0.75, 0.5, BLUE)
    return f"{lasting['h264']:.2f} s of video, {lasting['aac']:.2f} s of audio"


STORIES = [
    a_busy_machine_costs_frames_and_no_audio,
    tracks_are_recorded_as_they_are,
    a_grid_is_recorded,
    who_leaves_or_mutes_is_recorded_to_the_end,
    the_speaker_is_large,
    a_participant_is_recorded_across_mutes_and_new_tracks,
    tracks_are_recorded_that_are_muted_at_first,
    calls_are_recorded_that_are_muted_at_first,
    a_participant_is_recorded_that_publishes_nothing_at_first,
    a_phone_is_recorded_upright,
    audio_and_video_are_together,
]
