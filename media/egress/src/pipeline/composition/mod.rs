//! Room and participant compositions: frames and audio chunks at regular times, 800 ms behind the
//! call.
//!
//! - `input_timeline` delays input changes until the composition reaches their moment.
//! - `track_decoder` has a track's decoders, while it is mixed or shown.
//! - `compositor` arranges the tiles and draws the newest decoded frame into each.
//! - `schedule` orders frames and chunks by time.
//!
//! During a pause, decoders go on, so that the video is there at the first moment after it, but nothing is drawn or written.
//!
//! Each tick composes everything that is due and writes it to a sink (`output`). If decoders are
//! late on a busy machine, a file waits for up to 10 s; a broadcast, which must stay live, drops
//! frames.

mod compositor;
mod input_timeline;
mod schedule;
mod track_decoder;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::settings::EgressConfig;
use conclave_model::{EgressId, ParticipantSid, TrackSid};
use conclave_sfu::{Codec, RecordedPacket, TrackSettings};

pub use compositor::Arrangement;
use compositor::{Compositor, Tile, arrange};
use input_timeline::InputTimeline;
use schedule::{Due, Schedule, chunk_time};
use track_decoder::{DecoderResources, TrackDecoder};

use super::pauses::Pauses;
use super::{EgressHost, InputParticipant, Pipeline};
use crate::composite::{ActiveSpeaker, CHUNK_SAMPLES, Limiter};
use crate::decode::{DecoderSlots, Slots};
use crate::ffmpeg::{Ffmpeg, Importance, StopDeadline};
use crate::output::{Media, Sink};
use crate::progress::{DroppedFramesLog, EgressProgress, LeftOutLog};
use crate::rtp::PublisherClock;

// Delay behind the call. Retransmissions arrive within `REORDER_WAIT`, 300 ms; the rest is for
// decoders.
const DELAY: Duration = Duration::from_millis(800);
const INTERVAL: Duration = Duration::from_millis(10);
/// Delay, beyond the usual one, above which a broadcast drops frames.
const MAX_LIVE_LATENESS: Duration = Duration::from_millis(500);
/// The same for a file, which has no viewers yet: one second above the wait for decoders.
const MAX_LATENESS: Duration = Duration::from_secs(11);
/// Maximum time for which a file waits for its decoders. Their queues hold about as much: 128
/// frames are 8.5 s at 15 frames per second.
const MAX_DECODER_WAIT: Duration = Duration::from_secs(10);

/// Composition settings and shared resources.
pub struct CompositeConfig {
    pub arrangement: Arrangement,
    pub media: Media,
    pub encoding: EgressConfig,
    pub ffmpeg: Ffmpeg,
    /// Decoder slots that all egresses share.
    pub decoders: DecoderSlots,
    /// Whether it is a broadcast, which must not fall behind the call.
    pub is_live: bool,
    pub stop: StopDeadline,
}

/// Maximum audio tracks decoded per participant: microphone, screen audio, and some custom ones.
const MAX_AUDIO_TRACKS: usize = 8;

/// State shared by a participant's tracks.
struct Publisher {
    clock: PublisherClock,
    audio: Slots,
}

impl Default for Publisher {
    fn default() -> Self {
        Self {
            clock: PublisherClock::default(),
            audio: Slots::new(MAX_AUDIO_TRACKS),
        }
    }
}

/// Pipeline that composes frames and mixes audio.
pub struct CompositePipeline {
    egress: EgressId,
    host: Arc<dyn EgressHost>,
    progress: Arc<EgressProgress>,
    composition: CompositeConfig,
    start: Instant,
    timeline: InputTimeline,
    tracks: HashMap<TrackSid, TrackDecoder>,
    publishers: HashMap<ParticipantSid, Publisher>,
    /// This egress's decoder slots.
    decoders: DecoderSlots,
    left_out: LeftOutLog,
    dropped: DroppedFramesLog,
    compositor: Compositor,
    speaker: ActiveSpeaker,
    limiter: Limiter,
    schedule: Schedule,
    pauses: Pauses,
    /// Last frame number that was due outside of a pause.
    last_due: Option<u64>,
    /// Last frame number that the encoder accepted.
    last_frame: Option<u64>,
    /// Output time at which the next frame may be written.
    next_frame_at: Duration,
    sink: Box<dyn Sink>,
}

impl CompositePipeline {
    pub fn new(
        egress: EgressId,
        composition: CompositeConfig,
        sink: Box<dyn Sink>,
        host: Arc<dyn EgressHost>,
        progress: Arc<EgressProgress>,
    ) -> Self {
        let size = (composition.encoding.width, composition.encoding.height);
        let schedule = Schedule::new(composition.media, composition.encoding.frame_rate);
        let mut compositor = Compositor::new(composition.arrangement, size);
        if composition.media.has_video {
            compositor.poll_fonts();
        }
        Self {
            egress,
            host,
            progress,
            composition,
            start: Instant::now(),
            timeline: InputTimeline::default(),
            tracks: HashMap::new(),
            publishers: HashMap::new(),
            decoders: DecoderSlots::for_egress(),
            left_out: LeftOutLog::default(),
            dropped: DroppedFramesLog::default(),
            compositor,
            speaker: ActiveSpeaker::default(),
            limiter: Limiter::default(),
            schedule,
            pauses: Pauses::default(),
            last_due: None,
            last_frame: None,
            next_frame_at: Duration::ZERO,
            sink,
        }
    }

    /// Schedules inputs from a moment on, and creates decoders for new tracks.
    fn schedule_inputs(&mut self, inputs: Vec<InputParticipant>, since: Instant) {
        for (participant, track) in inputs
            .iter()
            .flat_map(|a| a.tracks.iter().map(move |track| (a, track)))
        {
            let new = || TrackDecoder::new(participant.sid.clone(), track.codec, self.start);
            self.tracks.entry(track.sid.clone()).or_insert_with(new);
        }
        self.timeline
            .schedule(since.saturating_duration_since(self.start), inputs);
        self.choose_layers();
    }

    fn tiles(&self, inputs: &[InputParticipant]) -> Vec<Tile> {
        let EgressConfig { width, height, .. } = self.composition.encoding;
        arrange(
            self.composition.arrangement,
            inputs,
            self.speaker.current(),
            (width, height),
        )
    }

    /// Advances to a moment: participants and tracks join and leave when they did so in the call.
    fn advance(&mut self, to: Duration) {
        if !self.timeline.advance(to) {
            return;
        }
        for track in self
            .timeline
            .current()
            .iter()
            .flat_map(|participant| &participant.tracks)
        {
            // Otherwise the tile would show the muted moment again when the video resumes.
            if let Some(input) = self.tracks.get_mut(&track.sid).filter(|_| track.is_muted) {
                input.clear_frame();
            }
        }
        let (timeline, all) = (&self.timeline, || self.timeline.latest_first().flatten());
        let known: HashSet<_> = all()
            .flat_map(|participant| &participant.tracks)
            .map(|track| &track.sid)
            .collect();
        // Dropping a decoder returns its slots. Scheduled tracks stay: they may be decoding
        // already.
        self.tracks.retain(|sid, _| known.contains(sid));
        let known: HashSet<_> = timeline
            .latest_first()
            .flatten()
            .map(|participant| &participant.sid)
            .collect();
        self.publishers.retain(|sid, _| known.contains(sid));
        self.arrange();
    }

    fn arrange(&mut self) {
        if !self.composition.media.has_video {
            return;
        }
        self.compositor
            .set_tiles(self.tiles(self.timeline.current()));
        self.choose_layers();
    }

    /// Requests the layers that fit the latest tiles, so that their frames have arrived when the
    /// tiles are shown. A video that ends keeps its layer until the composition reaches its end.
    fn choose_layers(&mut self) {
        if !self.composition.media.has_video {
            return;
        }
        let mut sizes = HashMap::new();
        for tile in self
            .timeline
            .latest_first()
            .flat_map(|inputs| self.tiles(inputs))
        {
            if let Some(video) = tile.video {
                sizes
                    .entry(video)
                    .or_insert((tile.rect.width, tile.rect.height));
            }
        }
        for (sid, input) in &mut self.tracks {
            let wanted = sizes.get(sid).copied();
            // Each request reaches a media worker, which would choose the layer anew.
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

    /// Returns the time up to which a file can be composed now: the usual delay behind the call,
    /// but not past a frame that a working decoder still has to deliver. Otherwise a busy machine
    /// would show videos later than their audio.
    fn ready_until(&mut self, usual: Duration, now: Instant) -> Duration {
        // At a shutdown, the deadline matters more than late frames.
        if self.composition.is_live || self.composition.stop.is_set() {
            return usual;
        }
        let shown = self
            .tracks
            .values_mut()
            .filter(|input| input.tile.is_some());
        let next_pending = shown.filter_map(|input| input.next_pending(now)).min();
        // A millisecond earlier: a frame at this very moment would be composed without the late
        // one.
        let ready_until = next_pending.map_or(usual, |at| {
            at.saturating_sub(Duration::from_millis(1)).min(usual)
        });
        ready_until.max(usual.saturating_sub(MAX_DECODER_WAIT))
    }

    /// Composes what is due now, up to `end`. Returns the time reached.
    fn compose_due(&mut self, now: Instant, end: Duration) -> Result<Duration, String> {
        let since_start = now.saturating_duration_since(self.start);
        let Some(usual) = since_start.checked_sub(DELAY) else {
            return Ok(Duration::ZERO);
        };
        let due = self.ready_until(usual, now).min(end);
        self.compose_until(due, usual)?;
        Ok(due)
    }

    /// Composes up to a moment since the start. `usual` is the time that a composition without
    /// delay would have reached.
    fn compose_until(&mut self, until: Duration, usual: Duration) -> Result<(), String> {
        let lateness = if self.composition.is_live {
            MAX_LIVE_LATENESS
        } else {
            MAX_LATENESS
        };
        while let Some(due) = self.schedule.next(until) {
            match due {
                // Audio is never dropped: a late encoder buffers it.
                Due::AudioChunk(number) => {
                    self.advance(chunk_time(number));
                    self.mix_chunk(number)?;
                }
                Due::VideoFrame(number) if self.is_left_out(number) => {
                    let at = self.schedule.frame_time(number);
                    self.advance(at);
                    self.compositor.skip(&mut self.tracks, at);
                }
                Due::VideoFrame(number) => {
                    let at = self.schedule.frame_time(number);
                    self.advance(at);
                    self.last_due = Some(number);
                    if usual.saturating_sub(at) > lateness {
                        self.progress.add_dropped_frames(1);
                    } else {
                        self.compose_frame(number, Importance::Optional)?;
                    }
                }
            }
            self.schedule.advance(due);
        }
        // `complete_video` may still write the last frame that was due.
        let last_frame = self
            .last_due
            .map_or(Duration::MAX, |last| self.schedule.frame_time(last));
        let done = self.schedule.done().min(until).min(last_frame);
        self.pauses.forget_until(done);
        Ok(())
    }

    /// Returns whether a frame is in a pause, or follows one too closely: the frames' times do not start anew after a pause, so the
    /// first one may be nearly as early as the last one before.
    fn is_left_out(&self, number: u64) -> bool {
        let at = self.schedule.frame_time(number);
        self.pauses.contains(at) || self.pauses.output_time(at) < self.next_frame_at
    }

    /// Ensures that the last frame is in the output, so that the video lasts as long as the audio.
    fn complete_video(&mut self) -> Result<(), String> {
        let Some(last) = self.last_due else {
            return Ok(());
        };
        if self.last_frame != Some(last) {
            return self.compose_frame(last, Importance::Required);
        }
        // At a shutdown, the encoder's queue skips optional frames, which may include the last one.
        if self.composition.stop.is_set() {
            self.compose_frame(last + 1, Importance::Required)
        } else {
            Ok(())
        }
    }

    fn compose_frame(&mut self, number: u64, importance: Importance) -> Result<(), String> {
        let at = self.schedule.frame_time(number);
        let canvas = self.compositor.compose(&mut self.tracks, at);
        let output_at = self.pauses.output_time(at);
        if self.sink.write_frame(output_at, canvas.data, importance)? {
            self.last_frame = Some(number);
            // Half a frame, so that frames in their regular distance are never left out.
            self.next_frame_at = output_at + self.schedule.frame_time(1) / 2;
            self.progress.add_frames(1);
        } else {
            self.progress.add_dropped_frames(1);
        }
        Ok(())
    }

    fn mix_chunk(&mut self, number: u64) -> Result<(), String> {
        let mut sum = vec![0; CHUNK_SAMPLES * 2];
        let mut loudness_of: HashMap<_, u64> = self
            .timeline
            .current()
            .iter()
            .map(|a| (a.sid.clone(), 0))
            .collect();
        for input in self.tracks.values_mut() {
            let energy = input.mix(number, &mut sum);
            if let Some(loudness) = loudness_of.get_mut(&input.publisher) {
                *loudness = energy.max(*loudness);
            }
        }
        // Mixed even if all tracks are silent: the encoder needs samples for every moment. A pause's samples are taken from the
        // queues, too, and not written.
        let samples = self.limiter.limit(&sum);
        let at = chunk_time(number);
        if !self.pauses.contains(at) {
            self.sink
                .write_samples(self.pauses.output_time(at), samples)?;
        }
        // Silent participants are in the map with 0, so that their loudness decays.
        if self.speaker.observe(number, &loudness_of) {
            self.arrange();
        }
        Ok(())
    }

    fn poll_inputs(&mut self, now: Instant) {
        let mut lost = 0;
        for (sid, input) in &mut self.tracks {
            lost += input.lost();
            self.progress.add_dropped_frames(input.take_dropped());
            if input.needs_key_frame(now) {
                self.host
                    .request_key_frame(&self.egress, (&input.publisher, sid));
            }
        }
        EgressProgress::set(&self.progress.lost_frames, lost);
        if self.left_out.is_due(now) {
            let left_out = self
                .tracks
                .iter_mut()
                .filter_map(|(sid, input)| input.take_left_out().then(|| sid.clone()));
            self.left_out
                .record(&self.egress, left_out.collect(), &self.progress, now);
        }
    }

    fn record_progress(&mut self, now: Instant) {
        let done = self.schedule.done();
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let late = now
            .saturating_duration_since(self.start)
            .saturating_sub(DELAY)
            .saturating_sub(done);
        let written = self.pauses.output_time(done);
        EgressProgress::set(&self.progress.media_millis, millis(written));
        EgressProgress::set(&self.progress.late_millis, millis(late));
        EgressProgress::set(&self.progress.bytes, self.sink.bytes());
        EgressProgress::set(&self.progress.buffered_bytes, self.sink.buffered_bytes());
        self.dropped.warn(&self.egress, &self.progress, now);
    }
}

impl Pipeline for CompositePipeline {
    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn packet(&mut self, packet: RecordedPacket) -> Result<(), String> {
        let Some(input) = self.tracks.get_mut(&packet.track) else {
            return Ok(());
        };
        let Publisher { clock, audio } =
            self.publishers.entry(input.publisher.clone()).or_default();
        let (own, all) = (&self.decoders, &self.composition.decoders);
        let (audio_slots, video_slots) =
            ([audio, &own.audio, &all.audio], [&own.video, &all.video]);
        let slots: &[&Slots] = if packet.codec == Codec::Opus {
            &audio_slots
        } else {
            &video_slots
        };
        input.push(
            packet,
            clock,
            &DecoderResources {
                ffmpeg: &self.composition.ffmpeg,
                slots,
            },
        )
    }

    fn set_inputs(&mut self, inputs: Vec<InputParticipant>) -> Result<ControlFlow<()>, String> {
        self.schedule_inputs(inputs, Instant::now());
        // A room that empties does not end the recording; its timeout does.
        Ok(ControlFlow::Continue(()))
    }

    fn set_paused(&mut self, paused: bool, at: Instant) {
        let at = at.saturating_duration_since(self.start);
        // The composition is behind the call, so no request comes too late, however busy the machine is.
        if paused {
            self.pauses.pause(at.max(self.schedule.done()));
        } else {
            self.pauses.resume(at.max(self.schedule.done()));
        }
    }

    fn tick(&mut self, now: Instant) -> Result<(), String> {
        // Before composing: a decoder that died returns its slots, and a key frame is requested as
        // early as possible.
        self.poll_inputs(now);
        self.sink.poll(now)?;
        self.compose_due(now, Duration::MAX)?;
        self.record_progress(now);
        Ok(())
    }

    fn is_active(&self) -> bool {
        self.sink.is_active()
    }

    fn finish(mut self: Box<Self>, end: Instant) -> Result<bool, String> {
        // Frames captured before the end are still in the decoders.
        let end = end.saturating_duration_since(self.start);
        let result = loop {
            match self.compose_due(Instant::now(), end) {
                Ok(done) if done >= end => break self.complete_video(),
                // Bounded by the wait for decoders: the clock passes `end` plus the delay whatever
                // they do.
                Ok(_) => std::thread::sleep(INTERVAL),
                Err(error) => break Err(error),
            }
        };
        self.record_progress(Instant::now());
        self.dropped.warn_at_end(&self.egress, &self.progress);
        // Even after an error: the sink removes an empty file and ends its processes.
        let finished = self.sink.finish();
        result.and(finished)
    }
}

#[cfg(test)]
mod tests;
