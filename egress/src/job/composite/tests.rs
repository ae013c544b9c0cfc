//! Compositions without ffmpeg: packets go in, samples and pictures come out, at the times of a clock that the test moves.

use std::sync::{Arc, Mutex};

use conclave_model::participant::TrackSource;

use super::*;
use crate::job::{AttendeeTrack, JobEvent};
use crate::rtp::SILENCE;

/// What has come out.
#[derive(Default)]
struct Output {
    samples: Vec<(Duration, Vec<u8>)>,
}

#[derive(Clone, Default)]
struct FakeSink(Arc<Mutex<Output>>);

impl Sink for FakeSink {
    fn write_picture(&mut self, _: Duration, _: Vec<u8>) -> Result<bool, String> {
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
}

impl World {
    fn new() -> Self {
        let encoding =
            Encoding { width: 64, height: 36, frame_rate: 30, video_kbps: 1, audio_kbps: 1, preset: String::new() };
        let composition = Composition {
            arrangement: Arrangement::Single,
            media: Media { has_video: false, has_audio: true },
            encoding,
            ffmpeg: Ffmpeg::fake("/nowhere/ffmpeg".as_ref()),
            decoders: DecoderPlaces::of_server(),
        };
        let sink = Box::new(FakeSink::default());
        let job = CompositeJob::new("EG_1".parse().unwrap(), composition, sink, Arc::new(Nobody), Arc::default());
        Self { job, sequence: 0 }
    }

    fn send(&mut self, track: &TrackSid, at: Duration, payload: &[u8]) {
        self.sequence += 1;
        let packet = RecordedPacket {
            track: track.clone(),
            layer: 0,
            codec: Codec::Opus,
            sequence: self.sequence,
            timestamp: u32::try_from(at.as_millis() * 48).unwrap(),
            is_marked: false,
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

#[test]
fn of_80_sounds_of_a_participant_8_are_decoded_the_others_are_named_and_another_participant_is_heard() {
    let mut world = World::new();
    let tracks: Vec<TrackSid> = (0..80).map(|number| format!("TR_{number:02}").parse().unwrap()).collect();
    let bob: TrackSid = "TR_bob".parse().unwrap();
    world.job.attend(vec![attendee("alice", &tracks), attendee("bob", std::slice::from_ref(&bob))]).unwrap();
    for number in 0..2 {
        let at = Duration::from_millis(20 * number);
        tracks.iter().chain([&bob]).for_each(|track| world.send(track, at, &SILENCE));
    }
    world.job.tick(world.job.start + Duration::from_millis(40)).unwrap();
    let (count, named) = world.job.progress.left_out();
    assert_eq!((count, named.len()), (72, 20));
    assert!(!named.contains(&bob) && world.job.composition.decoders.sounds.taken() == 9);

    // A decoder that has nothing to do for a while is given to a track that has.
    let later = Duration::from_secs(10);
    world.job.tick(world.job.start + later).unwrap();
    assert_eq!(world.job.progress.left_out().0, 0);
    tracks[8..16].iter().for_each(|track| world.send(track, later, &SILENCE));
    world.job.tick(world.job.start + later + Duration::from_secs(1)).unwrap();
    assert_eq!(world.job.progress.left_out().0, 0);
    drop(world.job.tracks);
    assert_eq!(world.job.composition.decoders.sounds.taken(), 0);
}
