"""What is recorded and broadcast of a call, and what must hold."""

import array
import asyncio
import json
import math
import os
import signal
import struct
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from livekit import rtc
from pushing import Receiver

WIDTH, HEIGHT, FRAMES_PER_SECOND = 640, 360, 15
SAMPLES_PER_SECOND, SAMPLES = 48_000, 480
RED, GREEN, BLUE = (200, 40, 40), (40, 160, 40), (40, 40, 200)
FINAL = ("complete", "failed", "aborted", "limit_reached")
# Every so many seconds there is a white picture with a tone, for so long.
BEAT, BEAT_LENGTH = 2, 0.2
# How much silence lets what follows be the beginning of a tone, in seconds.
SILENCE = 0.2
# The most that a duration may differ, and audio and video may be apart, in seconds.
DURATION, APART = 0.5, 0.08


class Participant:
    """A participant of one color and one tone. With a beat, the camera flashes while the tone sounds."""

    def __init__(self, conclave, room, identity, color, tone, beat=False, codec="vp8"):
        self.conclave, self.room_name, self.identity = conclave, room, identity
        self.color, self.tone, self.beat, self.codec, self.loudness = color, tone, beat, codec, 8_000
        self.tasks = []

    async def join(self):
        token = await asyncio.to_thread(self.conclave.token, self.room_name, self.identity)
        self.room = rtc.Room()
        await self.room.connect(token["url"], token["token"], rtc.RoomOptions(auto_subscribe=False))
        return self

    async def publish(self, camera=True, microphone=True):
        local = self.room.local_participant
        if camera:
            source = rtc.VideoSource(WIDTH, HEIGHT)
            self.camera_track = rtc.LocalVideoTrack.create_video_track("camera", source)
            codec = rtc.VideoCodec.H264 if self.codec == "h264" else rtc.VideoCodec.VP8
            options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_CAMERA, simulcast=True, video_codec=codec)
            self.camera = await local.publish_track(self.camera_track, options)
            self.tasks.append(asyncio.create_task(self.film(source)))
        if microphone:
            # A long queue would delay the sound.
            source = rtc.AudioSource(SAMPLES_PER_SECOND, 1, queue_size_ms=40)
            self.microphone_track = rtc.LocalAudioTrack.create_audio_track("microphone", source)
            options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
            self.microphone = await local.publish_track(self.microphone_track, options)
            self.tasks.append(asyncio.create_task(self.speak(source)))
        return self

    def is_beating(self):
        return time.time() % BEAT < BEAT_LENGTH

    async def film(self, source):
        plain, white = (bytes([*color, 255]) * (WIDTH * HEIGHT) for color in (self.color, (255, 255, 255)))
        due = time.monotonic()
        while True:
            picture = white if self.beat and self.is_beating() else plain
            source.capture_frame(rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGBA, picture))
            due += 1 / FRAMES_PER_SECOND
            await asyncio.sleep(max(0, due - time.monotonic()))

    async def speak(self, source):
        sent = 0
        while True:
            loudness = self.loudness if not self.beat or self.is_beating() else 0
            phase = lambda sample: 2 * math.pi * self.tone * (sent + sample) / SAMPLES_PER_SECOND
            wave = b"".join(struct.pack("<h", int(loudness * math.sin(phase(sample)))) for sample in range(SAMPLES))
            sent += SAMPLES
            await source.capture_frame(rtc.AudioFrame(wave, SAMPLES_PER_SECOND, 1, SAMPLES))

    async def leave(self):
        for task in self.tasks:
            task.cancel()
        await self.room.disconnect()


class Call:
    """A room with participants that have published."""

    def __init__(self, conclave, *participants):
        self.conclave, self.room = conclave, f"files-{time.monotonic_ns()}"
        self.participants = [Participant(conclave, self.room, *participant) for participant in participants]

    async def __aenter__(self):
        for participant in self.participants:
            await (await participant.join()).publish()
        await asyncio.sleep(1.5)
        return self

    async def __aexit__(self, *_):
        for participant in self.participants:
            await participant.leave()
        await self.request("DELETE", f"/v1/rooms/{self.room}")

    def request(self, *arguments):
        return asyncio.to_thread(self.conclave.request, *arguments)

    def start(self, kind="recordings", **body):
        return self.request("POST", f"/v1/rooms/{self.room}/{kind}", body)

    async def record(self, seconds, **body):
        """Records for a while, and returns the file and its record."""
        recording = await self.start(**body)
        await asyncio.sleep(seconds)
        ended = await self.stop(recording)
        assert ended["status"] == "complete", ended
        return path(self.conclave, ended), ended

    async def stop(self, egress, kind="recordings"):
        await self.request("POST", f"/v1/{kind}/{egress['egress_id']}/stop")
        return await self.end(egress, kind)

    async def end(self, egress, kind="recordings", seconds=30):
        return await self.status(egress, FINAL, kind, seconds)

    async def status(self, egress, statuses, kind="recordings", seconds=30):
        for _ in range(seconds * 5):
            now = await self.request("GET", f"/v1/{kind}/{egress['egress_id']}")
            if now["status"] in statuses:
                return now
            await asyncio.sleep(0.2)
        raise AssertionError(f"not {statuses} within {seconds} s: {now}")


def path(conclave, recording):
    return Path(conclave.directory.name) / "data" / "recordings" / recording["project_id"] / recording["filepath"]


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True)
    assert done.returncode == 0, f"{command[0]}: {done.stderr.decode()[-300:]}"
    return done.stdout


def streams(file):
    """The codecs of a file, and its duration."""
    probed = json.loads(run("ffprobe", "-v", "error", "-show_entries", "format=duration:stream=codec_name", "-of", "json", file))
    return [stream["codec_name"] for stream in probed["streams"]], float(probed["format"]["duration"])


def begin(file):
    """When the first picture or sound of a file begins. Places of a file count from there."""
    probed = json.loads(run("ffprobe", "-v", "error", "-show_entries", "format=start_time", "-of", "json", file))
    return float(probed["format"]["start_time"])


def color(file, at, x, y):
    """The color of a place of the picture, given in shares of its width and height."""
    place = f"crop=16:16:iw*{x}-8:ih*{y}-8,scale=1:1,format=rgb24"
    pixel = run("ffmpeg", "-v", "error", "-ss", at, "-i", file, "-frames:v", "1", "-vf", place, "-f", "rawvideo", "-")
    return tuple(pixel[:3])


def assert_color(file, at, x, y, expected):
    seen = color(file, at, x, y)
    assert all(abs(one - other) < 40 for one, other in zip(seen, expected)), f"{seen} at {at} s, not {expected}"


def samples(file, begin=0, seconds=None):
    limit = ["-t", seconds] if seconds else []
    return array.array("h", run("ffmpeg", "-v", "error", "-ss", begin, "-i", file, *limit, "-ac", "1", "-ar", "48000", "-f", "s16le", "-"))


def strength(sound, tone):
    """How strong a tone is in a sound (Goertzel)."""
    factor, before, last = 2 * math.cos(2 * math.pi * tone / SAMPLES_PER_SECOND), 0.0, 0.0
    for sample in sound:
        before, last = last, sample + factor * last - before
    return math.sqrt(max(0, before**2 + last**2 - factor * before * last)) / max(1, len(sound))


def assert_tone(file, at, tone, others=(1234,)):
    sound = samples(file, at, 0.5)
    heard, noise = strength(sound, tone), max(strength(sound, other) for other in others)
    assert heard > 200 and heard > 5 * noise, f"no tone of {tone} Hz at {at} s: {heard:.0f}, others {noise:.0f}"


def assert_silence(file, at):
    loudest = max(map(abs, samples(file, at, 0.5)), default=None)
    assert loudest is not None and loudest < 50, f"no silence at {at} s: {loudest}"


def onsets(file):
    """When white pictures begin, and when tones do."""
    movie = f"movie={file},crop=iw/4:ih/4,signalstats"
    frames = run("ffprobe", "-v", "error", "-f", "lavfi", "-i", movie, "-show_entries", "frame=pts_time:frame_tags=lavfi.signalstats.YAVG", "-of", "csv=p=0")
    flashes, was_white = [], False
    for line in frames.decode().splitlines():
        at, brightness = map(float, line.split(",")[:2])
        is_white = brightness > 170
        flashes += [at] if is_white and not was_white else []
        was_white = is_white
    tones, quiet, sound = [], 0, samples(file)
    for begin in range(0, len(sound) - 240, 240):
        if max(map(abs, sound[begin : begin + 240])) > 1_500:
            tones += [begin / SAMPLES_PER_SECOND] if quiet > SILENCE * SAMPLES_PER_SECOND / 240 else []
            quiet = 0
        else:
            quiet += 1
    return flashes, tones


def ffmpegs(server):
    """The children of a server that run."""
    found = subprocess.run(["pgrep", "-P", str(server), "ffmpeg"], capture_output=True, text=True).stdout.split()
    return [int(pid) for pid in found]


async def tracks_are_recorded_as_they_are(conclave):
    """VP8 in WebM, H264 in MP4, Opus in Ogg, and a name that exists is not used again. The audio of a call alone is Ogg, too."""
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
    """Tiles with the right colors, all tones, and a participant who joins in the middle."""
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
        # Three participants are in two rows.
        assert_color(file, 11, 0.5, 0.25, RED)
        assert_color(file, 11, 0.25, 0.75, BLUE)
        assert_color(file, 11, 0.75, 0.75, GREEN)
        for tone in (440, 880, 1320):
            assert_tone(file, 11, tone, (1000,))
    return record["filepath"].split(".")[-1]


async def audio_and_video_are_together(conclave, seconds=64):
    """A flash and its tone are less than 80 ms apart, also at the end."""
    async with Call(conclave, ("alice", RED, 440, True)) as call:
        file, _ = await call.record(seconds, type="participant", identity="alice", filepath=f"{call.room}.webm")
        flashes, tones = onsets(file)
        # A tone is known by the silence before it, which the file may not have of its first beat.
        apart = [min((flash - tone for tone in tones), key=abs) for flash in flashes if flash > BEAT_LENGTH + SILENCE]
        assert len(flashes) >= seconds / BEAT - 2, f"only {len(flashes)} flashes"
        assert all(abs(difference) < APART for difference in apart), apart
    return f"at most {max(map(abs, apart)) * 1000:.0f} ms apart in {len(apart)} beats"


def blueness(file, crop):
    """The time of each picture, and how blue a part of it is."""
    tags = "frame=pts_time:frame_tags=lavfi.signalstats.UAVG"
    movie = f"movie={file},crop={crop},signalstats"
    frames = run("ffprobe", "-v", "error", "-f", "lavfi", "-i", movie, "-show_entries", tags, "-of", "csv=p=0")
    return [tuple(map(float, line.split(",")[:2])) for line in frames.decode().splitlines()]


async def who_leaves_or_mutes_is_recorded_to_the_end(conclave):
    """The last 0.8 s, which are behind the call, are seen and heard, and the tile that grows keeps its shape."""
    ended = []
    for does_leave in (True, False):
        async with Call(conclave, ("alice", RED, 440, True), ("bob", BLUE, 880)) as call:
            bob = call.participants[1]
            recording = await call.start(type="room_composite", layout="grid", filepath=f"{call.room}.webm")
            await asyncio.sleep(4)
            # A second after alice's white pictures began.
            await asyncio.sleep(BEAT - (time.time() - 1) % BEAT)
            if does_leave:
                await bob.leave()
                call.participants.remove(bob)
            else:
                bob.camera_track.mute()
                bob.microphone_track.mute()
            await asyncio.sleep(4)
            file = path(conclave, await call.stop(recording))
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
        # A busy machine leaves pictures out.
        assert blue - 0.15 < moment < after + 0.15, f"the picture ends between {blue} s and {after} s instead of at {moment} s"
        ended += [last - moment]
        if does_leave:
            # Alice has the whole picture at once, without bars above and below: they would have been stretched.
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
    """Mutes tracks, and returns a task that unmutes them a while after."""
    for track in tracks:
        track.mute()
    await asyncio.sleep(1)

    async def unmute():
        await asyncio.sleep(seconds)
        for track in tracks:
            track.unmute()

    return asyncio.create_task(unmute())


async def tracks_are_recorded_that_are_muted_at_first(conclave):
    """Files last as long as their recordings: silent, and without a picture until their track is unmuted, which may be never."""
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
    """A participant whose pictures lie on their side, and are to be shown turned to the right: red above blue."""

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


async def broadcasts_arrive(conclave):
    """Each receiver gets the stream; one that is killed and comes back gets it again, and holds up no other."""
    one, two = (Receiver(conclave.directory.name, name) for name in ("one", "two"))
    async with Call(conclave, ("alice", RED, 440)) as call:
        broadcast = await call.start("broadcasts", urls=[one.url, two.url])
        await call.status(broadcast, ["active"], "broadcasts")
        await asyncio.sleep(6)
        metrics = await asyncio.to_thread(lambda: urllib.request.urlopen(f"{conclave.ready['admin']}/metrics").read().decode())
        shown = f'conclave_egress_connected_targets{{egress_id="{broadcast["egress_id"]}"}} 2'
        assert shown in metrics, [line for line in metrics.splitlines() if "conclave_egress" in line]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in ffmpegs(conclave.process.pid)]
        assert not any(b"rtmp" in command or b"secret-key" in command for command in commands), commands
        one.kill()
        await asyncio.sleep(3)
        one.listen()
        await asyncio.sleep(12)
        ended = await call.stop(broadcast, "broadcasts")
        assert ended["status"] == "complete", ended
        await asyncio.to_thread(two.process.wait, 20)
        one.process.terminate()
        await asyncio.to_thread(one.process.wait, 20)
        codecs, duration = streams(two.files[0])
        assert sorted(codecs) == ["aac", "h264"] and duration > 18, (codecs, duration)
        assert_color(two.files[0], 15, 0.5, 0.2, RED)
        assert_tone(two.files[0], 15, 440)
        assert streams(one.files[1])[1] > 3, "the receiver that came back has nothing"
        assert "secret-key" not in (Path(conclave.directory.name) / "conclave.log").read_text()
    return f"{duration:.0f} s"


async def the_death_of_ffmpeg_fails_the_recording(conclave):
    """What was recorded plays, and the record says why it failed. The death of a decoder fails nothing."""
    async with Call(conclave, ("alice", RED, 440, False, "h264")) as call:
        track = await call.start(type="track", track_id=call.participants[0].camera.sid)
        await asyncio.sleep(6)
        os.kill(ffmpegs(conclave.process.pid)[0], signal.SIGKILL)
        ended = await call.end(track)
        # A publisher sends key frames on request, and none was requested.
        assert ended["status"] == "failed" and streams(path(conclave, ended))[1] > 3, ended
        recording = await call.start(type="room_composite")
        await asyncio.sleep(6)
        command = lambda pid: Path(f"/proc/{pid}/cmdline").read_bytes()
        encoder = [pid for pid in ffmpegs(conclave.process.pid) if b"frag_keyframe" in command(pid)]
        decoders = [pid for pid in ffmpegs(conclave.process.pid) if b"rawvideo" in command(pid)]
        os.kill(decoders[0], signal.SIGKILL)
        await asyncio.sleep(3)
        await call.status(recording, ["active"])
        os.kill(encoder[0], signal.SIGKILL)
        ended = await call.end(recording)
        assert ended["status"] == "failed" and "ffmpeg" in ended["error"], ended
        file = path(conclave, ended)
        assert streams(file)[1] > 4, streams(file)
        assert_color(file, 4, 0.5, 0.2, RED)
        await asyncio.sleep(1)
        assert not ffmpegs(conclave.process.pid), "ffmpeg is left"
    return ended["error"]


async def the_death_of_the_server_leaves_a_file_that_plays(conclave):
    """After a start the record has failed, and no ffmpeg is left."""
    call = Call(conclave, ("alice", RED, 440))
    await call.__aenter__()
    recording = await call.start(type="room_composite")
    await asyncio.sleep(8)
    children = ffmpegs(conclave.process.pid)
    assert children
    conclave.kill()
    await asyncio.sleep(3)
    left = [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert not left, f"ffmpeg is left: {left}"
    await asyncio.to_thread(conclave.start)
    ended = await call.end(recording)
    assert ended["status"] == "failed" and "restarted" in ended["error"], ended
    file = path(conclave, ended)
    assert streams(file)[1] > 5, streams(file)
    assert_color(file, 4, 0.5, 0.2, RED)
    for task in call.participants[0].tasks:
        task.cancel()
    return ended["error"]


async def a_stop_of_the_server_completes_what_it_records(conclave):
    """After a start the records are complete with their files, and no ffmpeg is left."""
    call = Call(conclave, ("alice", RED, 440))
    await call.__aenter__()
    recordings = [await call.start(type="room_composite")]
    recordings.append(await call.start(type="track", track_id=call.participants[0].camera.sid))
    await asyncio.sleep(8)
    children = ffmpegs(conclave.process.pid)
    await asyncio.to_thread(conclave.terminate)
    left = [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert children and not left, f"ffmpeg is left: {left} of {children}"
    await asyncio.to_thread(conclave.start)
    for recording in recordings:
        ended = await call.end(recording)
        assert ended["status"] == "complete", ended
        assert_color(path(conclave, ended), 6, 0.5, 0.2, RED)
    for task in call.participants[0].tasks:
        task.cancel()
    return f"{streams(path(conclave, ended))[1]:.0f} s"


async def the_commands_of_the_page_get_a_file(conclave):
    page = (Path(__file__).resolve().parents[2] / "docs" / "recordings.md").read_text()
    commands = page.split("```bash\n")[1].split("\n```")[0]
    async with Call(conclave, ("alice", RED, 440)) as call:
        file, recording = await call.record(2, type="room_composite")
    with tempfile.TemporaryDirectory() as folder:
        names = {"API": conclave.ready["api"], "KEY": conclave.ready["api_key"], "EGRESS_ID": recording["egress_id"]}
        program = f'conclave() {{ "{conclave.program}" --data "{conclave.directory.name}/data" "$@"; }}\n'
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CONCLAVE_")} | names
        command = ["bash", "-euc", program + commands]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        [fetched] = Path(folder).iterdir()
        assert fetched.read_bytes() == file.read_bytes(), fetched
        link = done.stdout.split()[-1]
        with urllib.request.urlopen(link, timeout=30) as response:
            assert response.read() == file.read_bytes(), link


STORIES = [
    the_commands_of_the_page_get_a_file,
    tracks_are_recorded_as_they_are,
    a_grid_is_recorded,
    who_leaves_or_mutes_is_recorded_to_the_end,
    the_speaker_is_large,
    a_participant_is_recorded_across_mutes_and_new_tracks,
    tracks_are_recorded_that_are_muted_at_first,
    calls_are_recorded_that_are_muted_at_first,
    a_participant_is_recorded_that_publishes_nothing_at_first,
    a_phone_is_recorded_upright,
    broadcasts_arrive,
    the_death_of_ffmpeg_fails_the_recording,
    audio_and_video_are_together,
    the_death_of_the_server_leaves_a_file_that_plays,
    a_stop_of_the_server_completes_what_it_records,
]
