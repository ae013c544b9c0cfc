"""A client on LiveKit's Rust core, through its Python SDK, with the page's actions that the scenarios use."""

import asyncio
import logging
import threading
import time

from livekit import rtc

from .remote import ClientError

# The SDK warns about intended actions of the scenarios.
logging.getLogger("livekit").setLevel(logging.CRITICAL)

WIDTH, HEIGHT, FRAMES_PER_SECOND = 640, 360, 15
SAMPLES_PER_SECOND, SAMPLES = 48_000, 480


class Native:
    """One client with its own event loop."""

    kind = "python"
    # Whether it receives all tracks automatically.
    subscribes = True

    def __init__(self, name):
        self.name = name
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.reset()

    def reset(self):
        self.room, self.tasks, self.inbox, self.history = None, [], [], []
        self.inbound, self.sent, self.subscriptions = {}, 0, []
        self.data_tracks, self.frames = {}, []

    def call(self, action, timeout=40, **options):
        """Runs an action, and returns its result."""
        work = asyncio.run_coroutine_threadsafe(getattr(self, action)(**options), self.loop)
        try:
            return work.result(timeout)
        except Exception as error:
            raise ClientError(f"{self.name}: {action}: {type(error).__name__}: {error}") from error

    def close(self):
        if self.room:
            self.call("leave")
        self.loop.call_soon_threadsafe(self.loop.stop)

    async def join(self, url, token, single=True, **_):
        if self.room:
            await self.leave()
        self.reset()
        self.room = room = rtc.Room()
        room.on("track_subscribed", self.subscribed)
        room.on("data_received", lambda packet: self.inbox.append({
            "from": packet.participant.identity if packet.participant else None,
            "topic": packet.topic, "length": len(packet.data), "text": bytes(packet.data[:64]).decode(errors="replace"),
        }))
        room.on("data_track_published", lambda track: self.tasks.append(self.loop.create_task(self.read(track))))
        for event in ("reconnecting", "reconnected", "disconnected"):
            room.on(event, lambda *_, event=event: self.history.append([event, time.monotonic()]))
        begun = time.monotonic()
        await room.connect(url, token, rtc.RoomOptions(auto_subscribe=self.subscribes, single_peer_connection=single))
        return {"ms": round((time.monotonic() - begun) * 1000), "sid": room.local_participant.sid}

    def subscribed(self, track, publication, participant):
        self.subscriptions.append((participant.identity, track))
        kind = "video" if track.kind == rtc.TrackKind.KIND_VIDEO else "audio"
        stream = rtc.VideoStream(track) if kind == "video" else rtc.AudioStream(track)
        self.inbound[f"{participant.identity} {kind}"] = received = {"track": track, "framesShown": 0}
        self.tasks.append(self.loop.create_task(self.look_at(stream, received)))

    async def look_at(self, stream, received):
        """Counts a track's frames from the SDK. Clients that analyse the frames override this."""
        async for _ in stream:
            received["framesShown"] += 1

    async def publish(self, simulcast=False, codec=None, **_):
        video, audio = rtc.VideoSource(WIDTH, HEIGHT), rtc.AudioSource(SAMPLES_PER_SECOND, 1)
        camera = rtc.LocalVideoTrack.create_video_track("camera", video)
        microphone = rtc.LocalAudioTrack.create_audio_track("microphone", audio)
        codec = getattr(rtc.VideoCodec, (codec or "vp8").upper())
        camera_options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_CAMERA, simulcast=simulcast, video_codec=codec)
        await self.room.local_participant.publish_track(camera, camera_options)
        microphone_options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        await self.room.local_participant.publish_track(microphone, microphone_options)
        self.tasks += [self.loop.create_task(self.film(video)), self.loop.create_task(self.speak(audio))]

    async def publishMany(self, count, silent=False):
        """Publishes many audio tracks at once, without packets if they are silent."""
        sources = [rtc.AudioSource(SAMPLES_PER_SECOND, 1) for _ in range(count)]
        tracks = [rtc.LocalAudioTrack.create_audio_track(f"track {number}", source) for number, source in enumerate(sources)]
        publish = self.room.local_participant.publish_track
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE, dtx=False)
        await asyncio.gather(*(publish(track, options) for track in tracks))
        if not silent:
            self.tasks += [self.loop.create_task(self.speak(source)) for source in sources]

    async def arriving(self, identity):
        """Returns the number of a participant's tracks that arrive."""
        return sum([await self.has_packets(track) for of, track in list(self.subscriptions) if of == identity])

    async def has_packets(self, track):
        reports = [report.inbound_rtp for report in await track.get_stats() if report.WhichOneof("stats") == "inbound_rtp"]
        return any(report.received.packets_received for report in reports)

    async def toggle(self, seconds, perSecond):
        """Mutes and unmutes the published tracks, at this rate per second."""
        tracks = [publication.track for publication in self.room.local_participant.track_publications.values()]
        begun = time.monotonic()
        for number in range(1, seconds * perSecond + 1):
            for track in tracks:
                track.mute() if number % 2 else track.unmute()
            await asyncio.sleep(max(0, begun + number / perSecond - time.monotonic()))
        for track in tracks:
            track.unmute()

    async def film(self, source):
        """Sends frames that differ from each other."""
        due = time.monotonic()
        while True:
            shade = self.sent * 5 % 256
            picture = bytes([shade, 128, 255 - shade, 255]) * (WIDTH * HEIGHT)
            source.capture_frame(rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGBA, picture))
            self.sent += 1
            due += 1 / FRAMES_PER_SECOND
            await asyncio.sleep(max(0, due - time.monotonic()))

    async def speak(self, source):
        """Sends a square wave of 100 Hz."""
        wave = b"".join((3_000 if sample < SAMPLES // 2 else -3_000).to_bytes(2, "little", signed=True) for sample in range(SAMPLES))
        while True:
            await source.capture_frame(rtc.AudioFrame(wave, SAMPLES_PER_SECOND, 1, SAMPLES))

    async def stats(self):
        # A copy: tracks can be subscribed to while counters are awaited.
        inbound = {key: await self.counters(received) for key, received in list(self.inbound.items())}
        return {"inbound": inbound, "outbound": [{"kind": "video", "rid": None, "framesSent": self.sent}]}

    async def counters(self, received):
        """Returns a track's counters. libwebrtc resets its own when it recreates its stream, which a negotiation can cause. If a packet
        arrives at that moment, it keeps decoding but delivers no further frames, with any server: then only its counters advance."""
        track = received["track"]
        reports = [report.inbound_rtp for report in await track.get_stats() if report.WhichOneof("stats") == "inbound_rtp"]
        counters = reports[0].inbound if reports else None
        return {
            "trackSid": track.sid,
            "framesDecoded": max(received["framesShown"], counters.frames_decoded if counters else 0),
            "freezeCount": counters.freeze_count if counters else 0,
            "frameHeight": counters.frame_height if counters else 0,
        }

    async def quality(self, identity, quality):
        """Requests a layer of a participant's videos."""
        for publication in self.room.remote_participants[identity].track_publications.values():
            if publication.kind == rtc.TrackKind.KIND_VIDEO:
                publication.set_video_quality(getattr(rtc.VideoQuality, f"VIDEO_QUALITY_{quality}"))

    async def send(self, interval=0, **messages):
        sending = self.send_all(interval / 1000, **messages)
        if interval:
            self.tasks.append(self.loop.create_task(sending))
        else:
            await sending

    async def send_all(self, interval, text, length=0, topic=None, reliable=True, to=None, count=1):
        for number in range(count):
            message = text.replace("{n}", str(number)).encode().ljust(length, b"\0")
            await self.room.local_participant.publish_data(message, reliable=reliable, topic=topic or "", destination_identities=to or [])
            if interval:
                await asyncio.sleep(interval)

    async def received(self):
        return self.inbox

    async def describe(self, name, attributes):
        """Sets the client's own name and attributes."""
        await self.room.local_participant.set_name(name)
        await self.room.local_participant.set_attributes(attributes)

    async def described(self, identity):
        """Returns a participant's name and attributes."""
        participant = self.room.remote_participants.get(identity)
        return participant and {"name": participant.name, "attributes": dict(participant.attributes)}

    async def publishData(self, name):
        self.data_tracks[name] = await self.room.local_participant.publish_data_track(name=name)

    async def pushData(self, name, text):
        self.data_tracks[name].try_push(rtc.DataTrackFrame(payload=text.encode()))

    async def read(self, track):
        """Subscribes to a data track, and records its frames."""
        async for frame in track.subscribe():
            self.frames.append({"from": track.publisher_identity, "track": track.info.name, "text": bytes(frame.payload).decode()})

    async def dataFrames(self):
        return self.frames

    async def events(self):
        return self.history

    async def leave(self):
        for task in self.tasks:
            task.cancel()
        await self.room.disconnect()
        self.room = None
