//! Compositions without ffmpeg: the tests send packets, move the clock, and read the composed
//! frames and samples.

use std::sync::{Arc, Mutex};

use conclave_model::egress::Layout;
use conclave_model::participant::TrackSource;

use super::*;
use crate::codec::SILENCE;
use crate::composite::{CHUNK, Rect, VideoFrame};
use crate::decode::tone;
use crate::pipeline::{EgressEvent, InputTrack};

const WIDTH: u32 = 128;
const HEIGHT: u32 = 72;
const RED: [u8; 3] = [82, 90, 240];
const BLACK: [u8; 3] = [16, 128, 128];

/// Packet with a 64x36 VP8 key frame.
const KEY_FRAME: [u8; 12] = [0x10, 0x10, 2, 0, 0x9d, 0x01, 0x2a, 64, 0, 36, 0, 0];

/// Frames and samples written to a sink.
#[derive(Default)]
struct SinkRecording {
    samples: Vec<(Duration, Vec<u8>)>,
    frames: Vec<(Duration, Vec<u8>)>,
    /// Whether the sink has room for required frames only.
    is_full: bool,
}

#[derive(Clone, Default)]
struct FakeSink(Arc<Mutex<SinkRecording>>);

impl Sink for FakeSink {
    fn write_frame(
        &mut self,
        at: Duration,
        planes: Vec<u8>,
        importance: Importance,
    ) -> Result<bool, String> {
        let mut output = self.0.lock().unwrap();
        if output.is_full && importance == Importance::Optional {
            return Ok(false);
        }
        output.frames.push((at, planes));
        Ok(true)
    }

    fn write_samples(&mut self, at: Duration, samples: Vec<u8>) -> Result<(), String> {
        self.0.lock().unwrap().samples.push((at, samples));
        Ok(())
    }

    fn poll(&mut self, _: Instant) -> Result<(), String> {
        Ok(())
    }

    fn is_active(&self) -> bool {
        true
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn buffered_bytes(&self) -> u64 {
        0
    }

    fn finish(self: Box<Self>) -> Result<bool, String> {
        Ok(true)
    }
}

struct NoHost;

impl EgressHost for NoHost {
    fn handle(&self, _: &EgressId, _: EgressEvent) {}

    fn set_layer(&self, _: &EgressId, _: (&ParticipantSid, &TrackSid), _: TrackSettings) {}

    fn request_key_frame(&self, _: &EgressId, _: (&ParticipantSid, &TrackSid)) {}
}

/// Composite pipeline with a fake sink.
struct Fixture {
    pipeline: CompositePipeline,
    sequence: u64,
    output: Arc<Mutex<SinkRecording>>,
}

impl Fixture {
    fn new(arrangement: Arrangement, media: Media, program: &str) -> Self {
        let encoding = EgressConfig {
            width: WIDTH,
            height: HEIGHT,
            frame_rate: 50,
            video_kbps: 1,
            audio_kbps: 1,
            preset: String::new(),
            ..EgressConfig::default()
        };
        let ffmpeg = Ffmpeg::fake(program.as_ref());
        let composition = CompositeConfig {
            arrangement,
            media,
            encoding,
            ffmpeg,
            decoders: DecoderSlots::for_server(),
            is_live: false,
            stop: StopDeadline::default(),
        };
        let sink = FakeSink::default();
        let output = Arc::clone(&sink.0);
        let (egress, host) = ("EG_1".parse().unwrap(), Arc::new(NoHost));
        let pipeline =
            CompositePipeline::new(egress, composition, Box::new(sink), host, Arc::default());
        Self {
            pipeline,
            sequence: 0,
            output,
        }
    }

    fn audio_only() -> Self {
        Self::new(
            Arrangement::Single,
            Media {
                has_video: false,
                has_audio: true,
            },
            "/nowhere/ffmpeg",
        )
    }

    /// Composes up to a moment in the call.
    fn compose_until(&mut self, at: Duration) {
        // In steps, as the egress thread does: one jump would count as lateness and drop frames.
        let (mut now, step) = (
            self.pipeline
                .schedule
                .next_frame_time()
                .max(self.pipeline.schedule.next_chunk_end()),
            Duration::from_millis(100),
        );
        while now < at {
            now = (now + step).min(at);
            self.pipeline
                .tick(self.pipeline.start + now + DELAY)
                .unwrap();
        }
    }

    fn send(&mut self, track: &TrackSid, at: Duration, payload: &[u8]) {
        self.send_packet(track, (Codec::Opus, 48), at, payload);
    }

    fn send_packet(
        &mut self,
        track: &TrackSid,
        (codec, ticks): (Codec, u128),
        at: Duration,
        payload: &[u8],
    ) {
        self.sequence += 1;
        let packet = RecordedPacket {
            track: track.clone(),
            layer: 0,
            codec,
            sequence: self.sequence,
            timestamp: u32::try_from(at.as_millis() * ticks).unwrap(),
            is_marked: true,
            is_entry_point: true,
            payload: Arc::from(payload),
            arrived: self.pipeline.start + at,
            report: None,
        };
        self.pipeline.packet(packet).unwrap();
    }
}

fn participant(identity: &str, tracks: &[TrackSid]) -> InputParticipant {
    let track = |sid: &TrackSid| InputTrack {
        sid: sid.clone(),
        source: TrackSource::Microphone,
        codec: Codec::Opus,
        is_muted: false,
    };
    InputParticipant {
        sid: format!("PA_{identity}").parse().unwrap(),
        identity: identity.parse().unwrap(),
        name: String::new(),
        tracks: tracks.iter().map(track).collect(),
    }
}

/// Proves S-51.
#[test]
fn eight_of_a_participants_80_audio_tracks_are_decoded_the_rest_are_named_and_others_are_mixed() {
    let mut fixture = Fixture::audio_only();
    let tracks: Vec<TrackSid> = (0..80)
        .map(|number| format!("TR_{number:02}").parse().unwrap())
        .collect();
    let bob: TrackSid = "TR_bob".parse().unwrap();
    let inputs = vec![
        participant("alice", &tracks),
        participant("bob", std::slice::from_ref(&bob)),
    ];
    fixture
        .pipeline
        .schedule_inputs(inputs, fixture.pipeline.start);
    for number in 0..2 {
        let at = Duration::from_millis(20 * number);
        tracks
            .iter()
            .chain([&bob])
            .for_each(|track| fixture.send(track, at, &SILENCE));
    }
    fixture
        .pipeline
        .tick(fixture.pipeline.start + Duration::from_millis(40))
        .unwrap();
    let (count, named) = fixture.pipeline.progress.left_out();
    // All but 8, and the first 20 by sid.
    assert_eq!((count, named.len()), (72, 20));
    assert!(!named.contains(&bob) && fixture.pipeline.composition.decoders.audio.taken() == 9);

    // An idle decoder's slot goes to a track that sends.
    let later = Duration::from_secs(10);
    fixture
        .pipeline
        .tick(fixture.pipeline.start + later)
        .unwrap();
    assert_eq!(fixture.pipeline.progress.left_out().0, 0);
    tracks[8..16]
        .iter()
        .for_each(|track| fixture.send(track, later, &SILENCE));
    fixture
        .pipeline
        .tick(fixture.pipeline.start + later + Duration::from_secs(1))
        .unwrap();
    assert_eq!(fixture.pipeline.progress.left_out().0, 0);
    drop(fixture.pipeline.tracks);
    assert_eq!(fixture.pipeline.composition.decoders.audio.taken(), 0);
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_leaving_participants_audio_is_mixed_until_the_moment_of_the_leave() {
    let mut fixture = Fixture::audio_only();
    let track: TrackSid = "TR_a".parse().unwrap();
    let (start, left) = (fixture.pipeline.start, millis(2_000));
    fixture.pipeline.schedule_inputs(
        vec![participant("alice", std::slice::from_ref(&track))],
        start,
    );
    for packet in tone(100, 1) {
        fixture.send(&track, packet.at, &packet.data);
        fixture.pipeline.tick(start + packet.at).unwrap();
    }
    fixture.pipeline.schedule_inputs(vec![], start + left);
    fixture.compose_until(millis(3_000));
    let output = fixture.output.lock().unwrap();
    let loud = output.samples.iter().filter(|(_, samples)| {
        let values = samples.chunks(2).map(|b| i16::from_le_bytes([b[0], b[1]]));
        // Half the tone's amplitude.
        values.map(i16::unsigned_abs).max() > Some(4_000)
    });
    let loud: Vec<_> = loud.map(|(at, _)| *at).collect();
    let (first, last) = (loud[0], *loud.last().unwrap());
    assert!(
        first <= millis(40) && last + CHUNK >= left - millis(40) && last < left + CHUNK,
        "{first:?} to {last:?}"
    );
    assert_eq!(
        loud.len(),
        usize::try_from((last - first).as_millis() / 20).unwrap() + 1,
        "without a gap"
    );
    drop(output);
    assert!(
        fixture.pipeline.tracks.is_empty() && fixture.pipeline.publishers.is_empty(),
        "what is over is forgotten"
    );
}

/// Room with video, whose decoders output nothing by themselves.
fn room_with_video() -> Fixture {
    let media = Media {
        has_video: true,
        has_audio: false,
    };
    Fixture::new(
        Arrangement::Room(Layout::Grid),
        media,
        concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/decoder"),
    )
}

fn with_camera(identity: &str, is_muted: bool) -> InputParticipant {
    let mut participant = participant(identity, &[format!("TR_{identity}").parse().unwrap()]);
    participant.tracks.iter_mut().for_each(|track| {
        (track.source, track.codec, track.is_muted) = (TrackSource::Camera, Codec::Vp8, is_muted);
    });
    participant
}

impl Fixture {
    /// Starts a 64x36 camera's decoder, and outputs a red frame.
    fn show_red(&mut self, identity: &str, at: Duration) {
        let track: TrackSid = format!("TR_{identity}").parse().unwrap();
        self.send_packet(&track, (Codec::Vp8, 90), at, &KEY_FRAME);
        self.decode_red(identity, at);
    }

    /// Outputs a red frame from a camera's decoder.
    fn decode_red(&self, identity: &str, at: Duration) {
        let track: TrackSid = format!("TR_{identity}").parse().unwrap();
        let decoder = self.pipeline.tracks[&track].decoder().unwrap();
        let mut frame = VideoFrame::new(decoder.size.0, decoder.size.1, BLACK);
        let whole = frame.whole();
        frame.fill(crate::composite::fit((64, 36), whole), RED);
        decoder.show(at, frame);
    }

    /// Returns the red part's bounds in a composed frame, and its pixel count.
    fn red(&self, at: Duration) -> Option<(Rect, usize)> {
        let output = self.output.lock().unwrap();
        let (_, planes) = output.frames.iter().rfind(|(time, _)| *time <= at).unwrap();
        let width = WIDTH as usize;
        let (u, v) = (width * HEIGHT as usize, width * HEIGHT as usize * 5 / 4);
        let is_red = |x: usize, y: usize| {
            let chroma = y / 2 * (width / 2) + x / 2;
            planes[u + chroma] == RED[1] && planes[v + chroma] == RED[2]
        };
        let all = (0..HEIGHT as usize).flat_map(|y| (0..width).map(move |x| (x, y)));
        let red: Vec<_> = all.filter(|(x, y)| is_red(*x, *y)).collect();
        let number = |value: Option<usize>| u32::try_from(value.unwrap()).unwrap();
        let (x, y) = (
            red.iter().map(|at| at.0).min()?,
            red.iter().map(|at| at.1).min()?,
        );
        let (right, bottom) = (
            number(red.iter().map(|at| at.0).max()),
            number(red.iter().map(|at| at.1).max()),
        );
        let (x, y) = (number(Some(x)), number(Some(y)));
        Some((
            Rect {
                x,
                y,
                width: right - x + 1,
                height: bottom - y + 1,
            },
            red.len(),
        ))
    }
}

#[test]
fn a_video_that_ends_is_shown_until_the_moment_of_the_leave_mute_or_unpublish() {
    let without_track = || InputParticipant {
        tracks: vec![],
        ..with_camera("alice", false)
    };
    for after in [
        vec![],
        vec![with_camera("alice", true)],
        vec![without_track()],
    ] {
        let mut fixture = room_with_video();
        let start = fixture.pipeline.start;
        fixture
            .pipeline
            .schedule_inputs(vec![with_camera("alice", false)], start);
        fixture.show_red("alice", millis(100));
        fixture.compose_until(millis(500));
        fixture
            .pipeline
            .schedule_inputs(after, start + millis(1_000));
        assert!(
            !fixture.pipeline.tracks.is_empty(),
            "the composition is not there yet"
        );
        fixture.compose_until(millis(1_500));
        let whole = Rect {
            x: 0,
            y: 0,
            width: WIDTH,
            height: HEIGHT,
        };
        // At 50 frames per second, 980 ms is the last frame before the change.
        for at in [100, 500, 980] {
            assert_eq!(
                fixture.red(millis(at)).map(|(rect, _)| rect),
                Some(whole),
                "{at}"
            );
        }
        assert_eq!(fixture.red(millis(1_000)), None);
        assert!(
            fixture
                .pipeline
                .tracks
                .values()
                .all(|input| input.decoder().is_none()),
            "no input has a decoder"
        );
    }
}

#[test]
fn a_video_keeps_its_shape_while_its_decoder_for_a_new_tile_size_starts() {
    let mut fixture = room_with_video();
    let start = fixture.pipeline.start;
    fixture
        .pipeline
        .schedule_inputs(vec![with_camera("alice", false)], start);
    fixture.show_red("alice", millis(100));
    fixture.compose_until(millis(300));
    // Beside the first tile, a second tile without video; each has 64x72 pixels.
    fixture.pipeline.schedule_inputs(
        vec![with_camera("alice", false), with_camera("bob", false)],
        start + millis(1_000),
    );
    assert_eq!(
        fixture.pipeline.tracks[&"TR_alice".parse().unwrap()].tile,
        Some((64, 72)),
        "pictures of the size to come"
    );
    fixture.compose_until(millis(1_500));
    assert_eq!(
        fixture.red(millis(980)).unwrap().0,
        Rect {
            x: 0,
            y: 0,
            width: WIDTH,
            height: HEIGHT
        }
    );
    let (rect, _) = fixture.red(millis(1_000)).unwrap();
    assert_eq!(
        rect,
        Rect {
            x: 0,
            y: 18,
            width: 64,
            height: 36
        },
        "16:9, as before"
    );
}

#[test]
fn a_file_waits_for_its_decoders_and_shows_a_late_frame_at_its_time() {
    let mut fixture = room_with_video();
    let start = fixture.pipeline.start;
    fixture
        .pipeline
        .schedule_inputs(vec![with_camera("alice", false)], start);
    let track: TrackSid = "TR_alice".parse().unwrap();
    fixture.send_packet(&track, (Codec::Vp8, 90), millis(100), &KEY_FRAME);
    // The decoder takes three seconds for its first frame.
    fixture.pipeline.tick(start + millis(3_000)).unwrap();
    assert!(
        fixture
            .output
            .lock()
            .unwrap()
            .frames
            .iter()
            .all(|(at, _)| *at < millis(100))
    );
    assert!(
        fixture
            .pipeline
            .progress
            .late_millis
            .load(std::sync::atomic::Ordering::Relaxed)
            > 2_000
    );
    fixture.decode_red("alice", millis(100));
    fixture.compose_until(millis(2_500));
    let whole = Rect {
        x: 0,
        y: 0,
        width: WIDTH,
        height: HEIGHT,
    };
    assert_eq!(fixture.red(millis(80)), None);
    assert_eq!(fixture.red(millis(100)).map(|(rect, _)| rect), Some(whole));
    assert_eq!(
        fixture.output.lock().unwrap().frames.len(),
        126,
        "50 a second: none is left out"
    );
}

#[test]
fn a_decoder_without_progress_and_a_broadcast_are_not_waited_for() {
    for is_live in [false, true] {
        let mut fixture = room_with_video();
        fixture.pipeline.composition.is_live = is_live;
        let start = fixture.pipeline.start;
        fixture
            .pipeline
            .schedule_inputs(vec![with_camera("alice", false)], start);
        fixture.send_packet(
            &"TR_alice".parse().unwrap(),
            (Codec::Vp8, 90),
            millis(100),
            &KEY_FRAME,
        );
        let waits = if is_live { millis(0) } else { millis(5_000) };
        fixture.pipeline.tick(start + DELAY + millis(200)).unwrap();
        assert_eq!(
            fixture.output.lock().unwrap().frames.len(),
            // Up to 200 ms, or before the undecoded frame at 100 ms.
            if is_live { 11 } else { 5 }
        );
        fixture
            .pipeline
            .tick(start + DELAY + millis(400) + waits)
            .unwrap();
        assert!(fixture.output.lock().unwrap().frames.last().unwrap().0 >= millis(400));
    }
}

#[test]
fn dropped_frames_are_counted_and_the_last_frame_lasts_to_the_end_of_the_audio() {
    let media = Media {
        has_video: true,
        has_audio: true,
    };
    let mut fixture = Fixture::new(Arrangement::Room(Layout::Grid), media, "/nowhere/ffmpeg");
    let (start, output) = (fixture.pipeline.start, Arc::clone(&fixture.output));
    fixture
        .pipeline
        .schedule_inputs(vec![participant("alice", &[])], start);
    fixture.compose_until(millis(1_000));
    output.lock().unwrap().is_full = true;
    fixture.compose_until(millis(3_000));
    let (progress, composed) = (
        Arc::clone(&fixture.pipeline.progress),
        output.lock().unwrap().frames.len(),
    );
    let dropped = progress
        .dropped_frames
        .load(std::sync::atomic::Ordering::Relaxed);
    // Frames 0 to 50 in the first second, and two more seconds without room.
    assert_eq!((composed, dropped), (51, 100));
    // Moved into the past, so that `finish` does not wait.
    fixture.pipeline.start -= DELAY + millis(3_000);
    let end = fixture.pipeline.start + millis(3_000);
    assert_eq!(Box::new(fixture.pipeline).finish(end), Ok(true));
    let output = output.lock().unwrap();
    let frames: Vec<_> = output.frames.iter().map(|(at, _)| *at).collect();
    assert_eq!(frames[50..], [millis(1_000), millis(3_000)]);
    let audio: Vec<_> = output.samples.iter().map(|(at, _)| *at).collect();
    assert_eq!(
        audio,
        (0..150).map(|chunk| CHUNK * chunk).collect::<Vec<_>>()
    );
}

#[test]
fn a_pause_leaves_no_gap_in_audio_and_video_which_stay_together() {
    let media = Media {
        has_video: true,
        has_audio: true,
    };
    let mut fixture = Fixture::new(Arrangement::Room(Layout::Grid), media, "/nowhere/ffmpeg");
    // A frame interval that is no multiple of an audio chunk.
    fixture.pipeline.schedule = Schedule::new(media, 30);
    let (start, track): (_, TrackSid) = (fixture.pipeline.start, "TR_a".parse().unwrap());
    let alice = vec![participant("alice", std::slice::from_ref(&track))];
    fixture.pipeline.schedule_inputs(alice, start);
    let mut packets = tone(300, 1).into_iter().peekable();
    // Twice, since the moments of the second pause are already moved by the first.
    for (paused, resumed) in [(1_005, 2_321), (3_000, 4_444)] {
        for (is_paused, at) in [(true, paused), (false, resumed)] {
            while let Some(packet) = packets.next_if(|packet| packet.at < millis(at)) {
                // A tone during the pauses only.
                if is_paused {
                    continue;
                }
                fixture.send(&track, packet.at, &packet.data);
            }
            fixture.pipeline.set_paused(is_paused, start + millis(at));
            fixture
                .pipeline
                .set_paused(is_paused, start + millis(at + 90));
            fixture.compose_until(millis(at));
        }
    }
    fixture.compose_until(millis(6_000));
    let output = fixture.output.lock().unwrap();
    // 1,000 to 2,340 and 3,000 to 4,460 are left out, in multiples of a chunk.
    let audio: Vec<_> = output.samples.iter().map(|(at, _)| *at).collect();
    let expected = (6_000 - 1_340 - 1_460) / 20;
    assert_eq!(
        audio,
        (0..expected).map(|chunk| CHUNK * chunk).collect::<Vec<_>>()
    );
    let is_loud = |samples: &[u8]| {
        let values = samples.chunks(2).map(|b| i16::from_le_bytes([b[0], b[1]]));
        values.map(i16::unsigned_abs).max() > Some(4_000)
    };
    assert!(
        output.samples.iter().all(|(_, samples)| !is_loud(samples)),
        "nothing of a pause is written"
    );
    let frames: Vec<_> = output.frames.iter().map(|(at, _)| *at).collect();
    let interval = Duration::from_micros(1_000_000 / 30);
    for pair in frames.windows(2) {
        let distance = pair[1] - pair[0];
        assert!(
            distance > interval / 2 && distance < interval * 2,
            "{pair:?}"
        );
    }
    let (end, last) = (CHUNK * expected, *frames.last().unwrap());
    assert!(
        last + interval > end - CHUNK && last <= end,
        "video to {last:?}, audio to {end:?}"
    );
}

#[test]
fn a_recording_that_is_stopped_during_a_pause_ends_where_the_pause_started() {
    let media = Media {
        has_video: true,
        has_audio: true,
    };
    let mut fixture = Fixture::new(Arrangement::Room(Layout::Grid), media, "/nowhere/ffmpeg");
    let output = Arc::clone(&fixture.output);
    let alice = vec![participant("alice", &[])];
    fixture
        .pipeline
        .schedule_inputs(alice, fixture.pipeline.start);
    fixture
        .pipeline
        .set_paused(true, fixture.pipeline.start + millis(1_000));
    fixture.compose_until(millis(3_000));
    // Moved into the past, so that `finish` does not wait.
    fixture.pipeline.start -= DELAY + millis(3_000);
    let end = fixture.pipeline.start + millis(3_000);
    assert_eq!(Box::new(fixture.pipeline).finish(end), Ok(true));
    let output = output.lock().unwrap();
    let (last_frame, last_chunk) = (output.frames.last(), output.samples.last());
    assert_eq!(
        (last_frame.unwrap().0, last_chunk.unwrap().0),
        (millis(980), millis(980))
    );
}

#[test]
fn a_last_frame_from_before_a_pause_is_written_at_its_own_time() {
    let media = Media {
        has_video: true,
        has_audio: true,
    };
    let mut fixture = Fixture::new(Arrangement::Room(Layout::Grid), media, "/nowhere/ffmpeg");
    // So that the recording can be stopped between the end of the pause and the next frame.
    fixture.pipeline.schedule = Schedule::new(media, 30);
    let (start, output) = (fixture.pipeline.start, Arc::clone(&fixture.output));
    let alice = vec![participant("alice", &[])];
    fixture.pipeline.schedule_inputs(alice, start);
    fixture.compose_until(millis(900));
    output.lock().unwrap().is_full = true;
    fixture.pipeline.set_paused(true, start + millis(1_000));
    fixture.compose_until(millis(1_500));
    fixture.pipeline.set_paused(false, start + millis(2_005));
    fixture.compose_until(millis(2_025));
    // Moved into the past, so that `finish` does not wait.
    fixture.pipeline.start -= DELAY + millis(2_025);
    let end = fixture.pipeline.start + millis(2_025);
    assert_eq!(Box::new(fixture.pipeline).finish(end), Ok(true));
    let last = output.lock().unwrap().frames.last().map(|(at, _)| *at);
    assert_eq!(last, Some(Duration::from_micros(966_666)));
}
