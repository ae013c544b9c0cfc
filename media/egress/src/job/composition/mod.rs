//! The composition of a room or of one participant: pictures and samples at regular times, a fixed delay behind the call.
//!
//! The delay is for repeated packets and for decoders. What happens in the call therefore waits until the composition has come to that
//! moment (`attendance`). A track has a decoder while it is heard or shown (`input`). At each picture, the newest decoded ones are drawn into
//! the tiles of the participants (`scene`); at each chunk of 20 ms, the samples of all are added up. Both go to a sink (`output`), in the order of their times (`schedule`).
//!
//! A composition of a file waits for decoders on a busy machine, for some seconds; one of a broadcast leaves pictures out instead.

mod attendance;
mod input;
mod scene;
mod schedule;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::settings::EgressConfig;
use conclave_model::{EgressId, ParticipantSid, TrackSid};
use conclave_sfu::{Codec, RecordedPacket, TrackSettings};

use attendance::Attendance;
use input::{Means, TrackInput};
pub use scene::Arrangement;
use scene::{Stage, Tile, arrange};
use schedule::{Due, Schedule, chunk_time};

use super::{Attendee, EgressHost, Job};
use crate::composite::{ActiveSpeaker, CHUNK_SAMPLES, Limiter};
use crate::decode::{DecoderPlaces, Places};
use crate::ffmpeg::{Ffmpeg, Need, StopDeadline};
use crate::output::{Media, Sink};
use crate::progress::{DroppedFrames, LeftOut, Progress};
use crate::rtp::PublisherClock;

/// How far the composition is behind the call: enough for repeated packets and for decoders.
const DELAY: Duration = Duration::from_millis(800);
/// How often it is looked whether something is due.
const INTERVAL: Duration = Duration::from_millis(10);
/// How far the composition of a broadcast may fall behind before it leaves pictures out.
const LIVE_LATENESS: Duration = Duration::from_millis(500);
/// How far the composition of a file may fall behind: a busy machine decodes late, and nobody watches yet.
const LATENESS: Duration = Duration::from_secs(11);
/// How long the composition of a file waits for decoders. Their queues hold about as much.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is composed, and how.
pub struct Composition {
    pub arrangement: Arrangement,
    pub media: Media,
    pub encoding: EgressConfig,
    pub ffmpeg: Ffmpeg,
    /// Of the decoders of all egresses.
    pub decoders: DecoderPlaces,
    /// Whether it is a broadcast, which must not fall behind the call.
    pub is_live: bool,
    pub stop: StopDeadline,
}

/// The most sounds of a participant: a microphone, that of a screen, and some more.
const SOUNDS: usize = 8;

/// What the tracks of a participant share.
struct Publisher {
    clock: PublisherClock,
    sounds: Places,
}

impl Default for Publisher {
    fn default() -> Self {
        Self {
            clock: PublisherClock::default(),
            sounds: Places::new(SOUNDS),
        }
    }
}

/// Composes pictures and mixes sound.
pub struct CompositeJob {
    egress: EgressId,
    host: Arc<dyn EgressHost>,
    progress: Arc<Progress>,
    composition: Composition,
    start: Instant,
    attendance: Attendance,
    tracks: HashMap<TrackSid, TrackInput>,
    publishers: HashMap<ParticipantSid, Publisher>,
    /// Of the decoders of this egress.
    decoders: DecoderPlaces,
    left_out: LeftOut,
    dropped: DroppedFrames,
    stage: Stage,
    speaker: ActiveSpeaker,
    limiter: Limiter,
    schedule: Schedule,
    /// The number of the picture that the encoder took last.
    last_picture: Option<u64>,
    sink: Box<dyn Sink>,
}

impl CompositeJob {
    pub fn new(
        egress: EgressId,
        composition: Composition,
        sink: Box<dyn Sink>,
        host: Arc<dyn EgressHost>,
        progress: Arc<Progress>,
    ) -> Self {
        let size = (composition.encoding.width, composition.encoding.height);
        let schedule = Schedule::new(composition.media, composition.encoding.frame_rate);
        let mut stage = Stage::new(composition.arrangement, size);
        if composition.media.has_video {
            stage.take_fonts();
        }
        Self {
            egress,
            host,
            progress,
            composition,
            start: Instant::now(),
            attendance: Attendance::default(),
            tracks: HashMap::new(),
            publishers: HashMap::new(),
            decoders: DecoderPlaces::of_egress(),
            left_out: LeftOut::default(),
            dropped: DroppedFrames::default(),
            stage,
            speaker: ActiveSpeaker::default(),
            limiter: Limiter::default(),
            schedule,
            last_picture: None,
            sink,
        }
    }

    /// Takes who attends from a moment on.
    fn attend_from(&mut self, attendees: Vec<Attendee>, since: Instant) {
        for (attendee, track) in attendees
            .iter()
            .flat_map(|a| a.tracks.iter().map(move |track| (a, track)))
        {
            let new = || TrackInput::new(attendee.sid.clone(), track.codec, self.start);
            self.tracks.entry(track.sid.clone()).or_insert_with(new);
        }
        self.attendance
            .announce(since.saturating_duration_since(self.start), attendees);
        self.choose_layers();
    }

    /// Returns the tiles of participants.
    fn tiles(&self, attendees: &[Attendee]) -> Vec<Tile> {
        let EgressConfig { width, height, .. } = self.composition.encoding;
        arrange(
            self.composition.arrangement,
            attendees,
            self.speaker.current(),
            (width, height),
        )
    }

    /// Goes on to a moment: participants and tracks come and go when they did so in the call.
    fn advance(&mut self, to: Duration) {
        if !self.attendance.advance(to) {
            return;
        }
        for track in self
            .attendance
            .present()
            .iter()
            .flat_map(|attendee| &attendee.tracks)
        {
            if let Some(input) = self.tracks.get_mut(&track.sid).filter(|_| track.is_muted) {
                input.forget_picture();
            }
        }
        let (attendance, all) = (&self.attendance, || {
            self.attendance.latest_first().flatten()
        });
        let known: HashSet<_> = all()
            .flat_map(|attendee| &attendee.tracks)
            .map(|track| &track.sid)
            .collect();
        self.tracks.retain(|sid, _| known.contains(sid));
        let known: HashSet<_> = attendance
            .latest_first()
            .flatten()
            .map(|attendee| &attendee.sid)
            .collect();
        self.publishers.retain(|sid, _| known.contains(sid));
        self.arrange();
    }

    /// Arranges the tiles anew.
    fn arrange(&mut self) {
        if !self.composition.media.has_video {
            return;
        }
        self.stage.arrange(self.tiles(self.attendance.present()));
        self.choose_layers();
    }

    /// Asks for the layers that fit the tiles to come, so that their pictures are there in time. A video that goes keeps its layer until
    /// the composition has come to its end.
    fn choose_layers(&mut self) {
        if !self.composition.media.has_video {
            return;
        }
        let mut sizes = HashMap::new();
        for tile in self
            .attendance
            .latest_first()
            .flat_map(|attendees| self.tiles(attendees))
        {
            if let Some(video) = tile.video {
                sizes
                    .entry(video)
                    .or_insert((tile.rect.width, tile.rect.height));
            }
        }
        for (sid, input) in &mut self.tracks {
            let wanted = sizes.get(sid).copied();
            if input.tile == wanted {
                continue;
            }
            input.set_tile(wanted);
            let (width, height) = wanted.unwrap_or_default();
            let settings = TrackSettings {
                is_disabled: wanted.is_none(),
                width,
                height,
                ..TrackSettings::default()
            };
            self.host
                .set_layer(&self.egress, (&input.publisher, sid), settings);
        }
    }

    /// Returns up to when a file can be composed now: usually a fixed delay behind the call, and no further than the decoders of what is
    /// shown, as long as they make progress. Otherwise a busy machine would show videos late, beside audio that is not.
    fn ready(&mut self, usual: Duration, now: Instant) -> Duration {
        if self.composition.is_live || self.composition.stop.is_set() {
            return usual;
        }
        let shown = self
            .tracks
            .values_mut()
            .filter(|input| input.tile.is_some());
        let awaited = shown.filter_map(|input| input.awaited(now)).min();
        // A picture of that very moment would be composed without it.
        let ready = awaited.map_or(usual, |at| {
            at.saturating_sub(Duration::from_millis(1)).min(usual)
        });
        ready.max(usual.saturating_sub(PATIENCE))
    }

    /// Makes all pictures and chunks that are due now, up to the end. Returns up to when.
    fn compose_due(&mut self, now: Instant, end: Duration) -> Result<Duration, String> {
        let since_start = now.saturating_duration_since(self.start);
        let Some(usual) = since_start.checked_sub(DELAY) else {
            return Ok(Duration::ZERO);
        };
        let due = self.ready(usual, now).min(end);
        self.compose_until(due, usual)?;
        Ok(due)
    }

    /// Makes all pictures and chunks up to a moment since the start, of which a composition that is not late has come to `usual`.
    fn compose_until(&mut self, until: Duration, usual: Duration) -> Result<(), String> {
        let lateness = if self.composition.is_live {
            LIVE_LATENESS
        } else {
            LATENESS
        };
        while let Some(due) = self.schedule.next(until) {
            match due {
                Due::Chunk(number) => {
                    self.advance(chunk_time(number));
                    self.mix_chunk(number)?;
                }
                Due::Picture(number) => {
                    let at = self.schedule.picture_time(number);
                    self.advance(at);
                    if usual.saturating_sub(at) > lateness {
                        self.progress.add_dropped_frames(1);
                    } else {
                        self.compose_picture(number, Need::Optional)?;
                    }
                }
            }
            self.schedule.pass(due);
        }
        Ok(())
    }

    /// Makes sure that the last picture is there, so that it lasts to the end of the audio.
    fn complete_video(&mut self) -> Result<(), String> {
        let Some(last) = self.schedule.last_picture() else {
            return Ok(());
        };
        if self.last_picture != Some(last) {
            return self.compose_picture(last, Need::Required);
        }
        // A server that stops skips what waits, perhaps the last picture, too.
        if self.composition.stop.is_set() {
            self.compose_picture(last + 1, Need::Required)
        } else {
            Ok(())
        }
    }

    fn compose_picture(&mut self, number: u64, need: Need) -> Result<(), String> {
        let at = self.schedule.picture_time(number);
        let canvas = self.stage.compose(&mut self.tracks, at);
        if self.sink.write_picture(at, canvas.data, need)? {
            self.last_picture = Some(number);
            self.progress.add_frames(1);
        } else {
            self.progress.add_dropped_frames(1);
        }
        Ok(())
    }

    fn mix_chunk(&mut self, number: u64) -> Result<(), String> {
        let mut sum = vec![0; CHUNK_SAMPLES * 2];
        let mut heard: HashMap<_, u64> = self
            .attendance
            .present()
            .iter()
            .map(|a| (a.sid.clone(), 0))
            .collect();
        for input in self.tracks.values_mut() {
            let energy = input.mix(number, &mut sum);
            if let Some(loudness) = heard.get_mut(&input.publisher) {
                *loudness = energy.max(*loudness);
            }
        }
        let samples = self.limiter.limit(&sum);
        self.sink.write_samples(chunk_time(number), samples)?;
        if self.speaker.observe(number, &heard) {
            self.arrange();
        }
        Ok(())
    }

    fn look_after_inputs(&mut self, now: Instant) {
        let mut lost = 0;
        for (sid, input) in &mut self.tracks {
            lost += input.lost();
            self.progress.add_dropped_frames(input.take_dropped());
            if input.needs_key_frame(now) {
                self.host
                    .request_key_frame(&self.egress, (&input.publisher, sid));
            }
        }
        Progress::set(&self.progress.lost_frames, lost);
        if self.left_out.is_due(now) {
            let left_out = self
                .tracks
                .iter_mut()
                .filter_map(|(sid, input)| input.take_left_out().then(|| sid.clone()));
            self.left_out
                .note(&self.egress, left_out.collect(), &self.progress, now);
        }
    }

    fn note_progress(&mut self, now: Instant) {
        let done = self.schedule.done();
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let late = now
            .saturating_duration_since(self.start)
            .saturating_sub(DELAY)
            .saturating_sub(done);
        Progress::set(&self.progress.media_millis, millis(done));
        Progress::set(&self.progress.late_millis, millis(late));
        Progress::set(&self.progress.bytes, self.sink.bytes());
        Progress::set(&self.progress.buffered_bytes, self.sink.buffered_bytes());
        self.dropped.warn(&self.egress, &self.progress, now);
    }
}

impl Job for CompositeJob {
    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn packet(&mut self, packet: RecordedPacket) -> Result<(), String> {
        let Some(input) = self.tracks.get_mut(&packet.track) else {
            return Ok(());
        };
        let Publisher { clock, sounds } =
            self.publishers.entry(input.publisher.clone()).or_default();
        let (own, all) = (&self.decoders, &self.composition.decoders);
        let (of_sound, of_pictures) = (
            [sounds, &own.sounds, &all.sounds],
            [&own.pictures, &all.pictures],
        );
        let places: &[&Places] = if packet.codec == Codec::Opus {
            &of_sound
        } else {
            &of_pictures
        };
        input.push(
            packet,
            clock,
            &Means {
                ffmpeg: &self.composition.ffmpeg,
                places,
            },
        )
    }

    fn attend(&mut self, attendees: Vec<Attendee>) -> Result<ControlFlow<()>, String> {
        self.attend_from(attendees, Instant::now());
        // The recording goes on without anyone.
        Ok(ControlFlow::Continue(()))
    }

    fn tick(&mut self, now: Instant) -> Result<(), String> {
        self.look_after_inputs(now);
        self.sink.look_after(now)?;
        self.compose_due(now, Duration::MAX)?;
        self.note_progress(now);
        Ok(())
    }

    fn is_active(&self) -> bool {
        self.sink.is_active()
    }

    fn finish(mut self: Box<Self>, end: Instant) -> Result<bool, String> {
        // What was captured up to the end is on its way through the decoders.
        let end = end.saturating_duration_since(self.start);
        let result = loop {
            match self.compose_due(Instant::now(), end) {
                Ok(done) if done >= end => break self.complete_video(),
                Ok(_) => std::thread::sleep(INTERVAL),
                Err(error) => break Err(error),
            }
        };
        self.note_progress(Instant::now());
        self.dropped.warn_at_end(&self.egress, &self.progress);
        let finished = self.sink.finish();
        result.and(finished)
    }
}

#[cfg(test)]
mod tests;
