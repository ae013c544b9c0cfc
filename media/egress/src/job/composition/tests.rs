//! Compositions without ffmpeg: packets go in, samples and pictures come out, at the times of a clock that the test moves.

use std::sync::{Arc, Mutex};

use conclave_model::egress::Layout;
use conclave_model::participant::TrackSource;

use super::*;
use crate::codec::SILENCE;
use crate::composite::{CHUNK, Picture, Rect};
use crate::decode::tone;
use crate::job::{AttendeeTrack, JobEvent};

const WIDTH: u32 = 128;
const HEIGHT: u32 = 72;
const RED: [u8; 3] = [82, 90, 240];
const BLACK: [u8; 3] = [16, 128, 128];

/// A packet of VP8 with a key frame of 64x36.
const KEY_FRAME: [u8; 12] = [0x10, 0x10, 2, 0, 0x9d, 0x01, 0x2a, 64, 0, 36, 0, 0];

/// What has come out.
#[derive(Default)]
struct Output {
    samples: Vec<(Duration, Vec<u8>)>,
    pictures: Vec<(Duration, Vec<u8>)>,
    /// Whether there is room for required pictures only.
    is_full: bool,
}

#[derive(Clone, Default)]
struct FakeSink(Arc<Mutex<Output>>);

impl Sink for FakeSink {
    fn write_picture(&mut self, at: Duration, planes: Vec<u8>, need: Need) -> Result<bool, String> {
        let mut output = self.0.lock().unwrap();
        if output.is_full && need == Need::Optional {
            return Ok(false);
        }
        output.pictures.push((at, planes));
        Ok(true)
    }

    fn write_samples(&mut self, at: Duration, samples: Vec<u8>) -> Result<(), String> {
        self.0.lock().unwrap().samples.push((at, samples));
        Ok(())
    }

    fn look_after(&mut self, _: Instant) -> Result<(), String> {
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

struct Nobody;

impl EgressHost for Nobody {
    fn handle(&self, _: &EgressId, _: JobEvent) {}

    fn set_layer(&self, _: &EgressId, _: (&ParticipantSid, &TrackSid), _: TrackSettings) {}

    fn request_key_frame(&self, _: &EgressId, _: (&ParticipantSid, &TrackSid)) {}
}

/// A composition, and what comes out of it.
struct World {
    job: CompositeJob,
    sequence: u64,
    output: Arc<Mutex<Output>>,
}

impl World {
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
        let composition = Composition {
            arrangement,
            media,
            encoding,
            ffmpeg,
            decoders: DecoderPlaces::of_server(),
            is_live: false,
            stop: StopDeadline::default(),
        };
        let sink = FakeSink::default();
        let output = Arc::clone(&sink.0);
        let (egress, host) = ("EG_1".parse().unwrap(), Arc::new(Nobody));
        let job = CompositeJob::new(egress, composition, Box::new(sink), host, Arc::default());
        Self {
            job,
            sequence: 0,
            output,
        }
    }

    fn of_sound() -> Self {
        Self::new(
            Arrangement::Single,
            Media {
                has_video: false,
                has_audio: true,
            },
            "/nowhere/ffmpeg",
        )
    }

    /// Composes what the call was until a moment.
    fn compose_until(&mut self, at: Duration) {
        // In steps, as an egress does: pictures that are late are left out.
        let (mut now, step) = (
            self.job
                .schedule
                .next_picture_time()
                .max(self.job.schedule.next_chunk_end()),
            Duration::from_millis(100),
        );
        while now < at {
            now = (now + step).min(at);
            self.job.tick(self.job.start + now + DELAY).unwrap();
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
            arrived: self.job.start + at,
            report: None,
        };
        self.job.packet(packet).unwrap();
    }
}

fn attendee(identity: &str, tracks: &[TrackSid]) -> Attendee {
    let track = |sid: &TrackSid| AttendeeTrack {
        sid: sid.clone(),
        source: TrackSource::Microphone,
        codec: Codec::Opus,
        is_muted: false,
    };
    Attendee {
        sid: format!("PA_{identity}").parse().unwrap(),
        identity: identity.parse().unwrap(),
        name: String::new(),
        tracks: tracks.iter().map(track).collect(),
    }
}

/// Proves S-51.
#[test]
fn of_80_sounds_of_a_participant_8_are_decoded_the_others_are_named_and_another_participant_is_heard()
 {
    let mut world = World::of_sound();
    let tracks: Vec<TrackSid> = (0..80)
        .map(|number| format!("TR_{number:02}").parse().unwrap())
        .collect();
    let bob: TrackSid = "TR_bob".parse().unwrap();
    let attendees = vec![
        attendee("alice", &tracks),
        attendee("bob", std::slice::from_ref(&bob)),
    ];
    world.job.attend_from(attendees, world.job.start);
    for number in 0..2 {
        let at = Duration::from_millis(20 * number);
        tracks
            .iter()
            .chain([&bob])
            .for_each(|track| world.send(track, at, &SILENCE));
    }
    world
        .job
        .tick(world.job.start + Duration::from_millis(40))
        .unwrap();
    let (count, named) = world.job.progress.left_out();
    assert_eq!((count, named.len()), (72, 20));
    assert!(!named.contains(&bob) && world.job.composition.decoders.sounds.taken() == 9);

    // A decoder that has nothing to do for a while is given to a track that has.
    let later = Duration::from_secs(10);
    world.job.tick(world.job.start + later).unwrap();
    assert_eq!(world.job.progress.left_out().0, 0);
    tracks[8..16]
        .iter()
        .for_each(|track| world.send(track, later, &SILENCE));
    world
        .job
        .tick(world.job.start + later + Duration::from_secs(1))
        .unwrap();
    assert_eq!(world.job.progress.left_out().0, 0);
    drop(world.job.tracks);
    assert_eq!(world.job.composition.decoders.sounds.taken(), 0);
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_sound_of_who_leaves_is_heard_until_the_moment_of_the_leave() {
    let mut world = World::of_sound();
    let track: TrackSid = "TR_a".parse().unwrap();
    let (start, left) = (world.job.start, millis(2_000));
    world
        .job
        .attend_from(vec![attendee("alice", std::slice::from_ref(&track))], start);
    for packet in tone(100, 1) {
        world.send(&track, packet.at, &packet.data);
        world.job.tick(start + packet.at).unwrap();
    }
    world.job.attend_from(vec![], start + left);
    world.compose_until(millis(3_000));
    let output = world.output.lock().unwrap();
    let loud = output.samples.iter().filter(|(_, samples)| {
        let values = samples.chunks(2).map(|b| i16::from_le_bytes([b[0], b[1]]));
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
        world.job.tracks.is_empty() && world.job.publishers.is_empty(),
        "what is over is forgotten"
    );
}

/// A room with pictures, whose decoders do nothing by themselves.
fn room_with_pictures() -> World {
    let media = Media {
        has_video: true,
        has_audio: false,
    };
    World::new(
        Arrangement::Room(Layout::Grid),
        media,
        concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/decoder"),
    )
}

fn with_camera(identity: &str, is_muted: bool) -> Attendee {
    let mut attendee = attendee(identity, &[format!("TR_{identity}").parse().unwrap()]);
    attendee.tracks.iter_mut().for_each(|track| {
        (track.source, track.codec, track.is_muted) = (TrackSource::Camera, Codec::Vp8, is_muted);
    });
    attendee
}

impl World {
    /// Lets the decoder of a camera of 64x36 begin at a moment, and shows a red picture of its size.
    fn show_red(&mut self, identity: &str, at: Duration) {
        let track: TrackSid = format!("TR_{identity}").parse().unwrap();
        self.send_packet(&track, (Codec::Vp8, 90), at, &KEY_FRAME);
        self.decode_red(identity, at);
    }

    /// Lets the decoder of a camera make the red picture of a moment.
    fn decode_red(&self, identity: &str, at: Duration) {
        let track: TrackSid = format!("TR_{identity}").parse().unwrap();
        let decoder = self.job.tracks[&track].decoder().unwrap();
        let mut picture = Picture::new(decoder.size.0, decoder.size.1, BLACK);
        let whole = picture.whole();
        picture.fill(crate::composite::fit((64, 36), whole), RED);
        decoder.show(at, picture);
    }

    /// Returns the part of a composed picture that is red, and how many of its pixels are.
    fn red(&self, at: Duration) -> Option<(Rect, usize)> {
        let output = self.output.lock().unwrap();
        let (_, planes) = output
            .pictures
            .iter()
            .rfind(|(time, _)| *time <= at)
            .unwrap();
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
fn the_picture_of_who_leaves_mutes_or_unpublishes_is_shown_until_that_moment() {
    let without_track = || Attendee {
        tracks: vec![],
        ..with_camera("alice", false)
    };
    for after in [
        vec![],
        vec![with_camera("alice", true)],
        vec![without_track()],
    ] {
        let mut world = room_with_pictures();
        let start = world.job.start;
        world
            .job
            .attend_from(vec![with_camera("alice", false)], start);
        world.show_red("alice", millis(100));
        world.compose_until(millis(500));
        world.job.attend_from(after, start + millis(1_000));
        assert!(
            !world.job.tracks.is_empty(),
            "the composition is not there yet"
        );
        world.compose_until(millis(1_500));
        let whole = Rect {
            x: 0,
            y: 0,
            width: WIDTH,
            height: HEIGHT,
        };
        for at in [100, 500, 980] {
            assert_eq!(
                world.red(millis(at)).map(|(rect, _)| rect),
                Some(whole),
                "{at}"
            );
        }
        assert_eq!(world.red(millis(1_000)), None);
        assert!(
            world
                .job
                .tracks
                .values()
                .all(|input| input.decoder().is_none()),
            "it is not decoded any more"
        );
    }
}

#[test]
fn a_video_keeps_its_shape_when_its_tile_changes_until_there_are_pictures_for_it() {
    let mut world = room_with_pictures();
    let start = world.job.start;
    world
        .job
        .attend_from(vec![with_camera("alice", false)], start);
    world.show_red("alice", millis(100));
    world.compose_until(millis(300));
    // A second tile without a picture beside the first one, each of 64x72.
    world.job.attend_from(
        vec![with_camera("alice", false), with_camera("bob", false)],
        start + millis(1_000),
    );
    assert_eq!(
        world.job.tracks[&"TR_alice".parse().unwrap()].tile,
        Some((64, 72)),
        "pictures of the size to come"
    );
    world.compose_until(millis(1_500));
    assert_eq!(
        world.red(millis(980)).unwrap().0,
        Rect {
            x: 0,
            y: 0,
            width: WIDTH,
            height: HEIGHT
        }
    );
    let (rect, _) = world.red(millis(1_000)).unwrap();
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
fn a_file_waits_for_its_decoders_and_shows_a_late_picture_at_its_time() {
    let mut world = room_with_pictures();
    let start = world.job.start;
    world
        .job
        .attend_from(vec![with_camera("alice", false)], start);
    let track: TrackSid = "TR_alice".parse().unwrap();
    world.send_packet(&track, (Codec::Vp8, 90), millis(100), &KEY_FRAME);
    // The decoder needs three seconds for its first picture.
    world.job.tick(start + millis(3_000)).unwrap();
    assert!(
        world
            .output
            .lock()
            .unwrap()
            .pictures
            .iter()
            .all(|(at, _)| *at < millis(100))
    );
    assert!(
        world
            .job
            .progress
            .late_millis
            .load(std::sync::atomic::Ordering::Relaxed)
            > 2_000
    );
    world.decode_red("alice", millis(100));
    world.compose_until(millis(2_500));
    let whole = Rect {
        x: 0,
        y: 0,
        width: WIDTH,
        height: HEIGHT,
    };
    assert_eq!(world.red(millis(80)), None);
    assert_eq!(world.red(millis(100)).map(|(rect, _)| rect), Some(whole));
    assert_eq!(
        world.output.lock().unwrap().pictures.len(),
        126,
        "50 a second: none is left out"
    );
}

#[test]
fn a_decoder_without_progress_and_a_broadcast_are_not_waited_for() {
    for is_live in [false, true] {
        let mut world = room_with_pictures();
        world.job.composition.is_live = is_live;
        let start = world.job.start;
        world
            .job
            .attend_from(vec![with_camera("alice", false)], start);
        world.send_packet(
            &"TR_alice".parse().unwrap(),
            (Codec::Vp8, 90),
            millis(100),
            &KEY_FRAME,
        );
        let waits = if is_live { millis(0) } else { millis(5_000) };
        world.job.tick(start + DELAY + millis(200)).unwrap();
        assert_eq!(
            world.output.lock().unwrap().pictures.len(),
            if is_live { 11 } else { 5 }
        );
        world.job.tick(start + DELAY + millis(400) + waits).unwrap();
        assert!(world.output.lock().unwrap().pictures.last().unwrap().0 >= millis(400));
    }
}

#[test]
fn what_the_encoder_has_no_room_for_is_counted_and_the_last_picture_lasts_to_the_end_of_the_audio()
{
    let media = Media {
        has_video: true,
        has_audio: true,
    };
    let mut world = World::new(Arrangement::Room(Layout::Grid), media, "/nowhere/ffmpeg");
    let (start, output) = (world.job.start, Arc::clone(&world.output));
    world.job.attend_from(vec![attendee("alice", &[])], start);
    world.compose_until(millis(1_000));
    output.lock().unwrap().is_full = true;
    world.compose_until(millis(3_000));
    let (progress, composed) = (
        Arc::clone(&world.job.progress),
        output.lock().unwrap().pictures.len(),
    );
    let dropped = progress
        .dropped_frames
        .load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((composed, dropped), (51, 100));
    // The call has ended in the past, so that nothing is waited for.
    world.job.start -= DELAY + millis(3_000);
    let end = world.job.start + millis(3_000);
    assert_eq!(Box::new(world.job).finish(end), Ok(true));
    let output = output.lock().unwrap();
    let pictures: Vec<_> = output.pictures.iter().map(|(at, _)| *at).collect();
    assert_eq!(pictures[50..], [millis(1_000), millis(3_000)]);
    let audio: Vec<_> = output.samples.iter().map(|(at, _)| *at).collect();
    assert_eq!(
        audio,
        (0..150).map(|chunk| CHUNK * chunk).collect::<Vec<_>>()
    );
}
