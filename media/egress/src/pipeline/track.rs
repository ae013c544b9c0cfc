//! Recording one track without transcoding.
//!
//! The file lasts as long as the recording. Gaps in audio are filled with silence. Video starts
//! with its first key frame, at that frame's time; in later gaps, the last frame stays.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::{EgressId, TrackSid};
use conclave_sfu::{Codec, RecordedPacket};

use super::Pipeline;
use super::handle::{EgressHost, InputParticipant};
use crate::codec::{EncodedFrame, SILENCE, opus_duration, track_header};
use crate::ffmpeg::{BacklogCapacity, Process, SendError};
use crate::matroska::MatroskaWriter;
use crate::output::OutputFile;
use crate::progress::{EgressProgress, LeftOutLog};
use crate::rtp::{PublisherClock, TrackReader};

const INTERVAL: Duration = Duration::from_millis(250);
// Audio packets later than this are dropped. Until then, the gap stays open; after that, it is
// filled bit by bit, so that ffmpeg keeps writing during a mute, however long.
const MAX_LATENESS: Duration = Duration::from_secs(5);
const SILENCE_DURATION: Duration = Duration::from_millis(20);
// Three packets, usually 20 ms each: shorter differences are jitter in the capture times.
const MIN_GAP: Duration = Duration::from_millis(60);

/// Pipeline that copies one track into a file.
pub struct TrackPipeline {
    egress: EgressId,
    track: TrackSid,
    host: Arc<dyn EgressHost>,
    progress: Arc<EgressProgress>,
    start: Instant,
    codec: Codec,
    publisher: PublisherClock,
    reader: TrackReader,
    /// Publisher; `None` until the first inputs arrive.
    participant: Option<InputParticipant>,
    output: OutputFile,
    /// Bounds for the queue to ffmpeg.
    backlog: BacklogCapacity,
    process: Option<Process>,
    /// Last video frame, kept back until its duration is known.
    last: Option<EncodedFrame>,
    timeline: AudioTimeline,
    left_out: LeftOutLog,
}

impl TrackPipeline {
    pub fn new(
        (egress, track, codec): (EgressId, TrackSid, Codec),
        (output, backlog): (OutputFile, BacklogCapacity),
        host: Arc<dyn EgressHost>,
        progress: Arc<EgressProgress>,
    ) -> Self {
        let start = Instant::now();
        Self {
            egress,
            track,
            host,
            progress,
            start,
            codec,
            publisher: PublisherClock::default(),
            reader: TrackReader::new(codec, start),
            participant: None,
            output,
            backlog,
            process: None,
            last: None,
            timeline: AudioTimeline::default(),
            left_out: LeftOutLog::default(),
        }
    }

    /// Starts ffmpeg, unless the file's header needs information that this frame lacks.
    fn start_process(&mut self, frame: &EncodedFrame) -> Result<(), String> {
        if self.process.is_some() {
            return Ok(());
        }
        let Some(header) = track_header(self.codec, frame) else {
            return Ok(());
        };
        let process = self
            .output
            .start(&["-c".into(), "copy".into()], self.backlog.clone())?;
        process
            .try_send(MatroskaWriter::header(&[header]))
            .map_err(|_| "ffmpeg does not read".to_owned())?;
        self.process = Some(process);
        Ok(())
    }

    fn write(&mut self, frame: EncodedFrame) -> Result<(), String> {
        // The first frame supplies the header. Video frames before a key frame with parameter sets
        // are skipped.
        self.start_process(&frame)?;
        if self.codec == Codec::Opus {
            return self.write_audio(&frame);
        }
        if self.process.is_none() {
            return Ok(());
        }
        self.progress.add_frames(1);
        match self.last.replace(frame) {
            // Matroska's simple blocks have no duration: a frame lasts until the next one, so only
            // a file's last frame needs one.
            Some(before) => self.send(
                before.at,
                MatroskaWriter::frame(1, before.at, before.is_key, &before.data),
            ),
            None => Ok(()),
        }
    }

    fn write_audio(&mut self, packet: &EncodedFrame) -> Result<(), String> {
        // A malformed packet takes no time, and the player's decoder conceals it.
        let duration = opus_duration(&packet.data).unwrap_or_default();
        let Some((silence, at)) = self.timeline.insert(packet.at, duration) else {
            return Ok(());
        };
        self.write_silence(&silence)?;
        self.send(at, MatroskaWriter::frame(1, at, true, &packet.data))
    }

    fn write_silence(&mut self, times: &[Duration]) -> Result<(), String> {
        times
            .iter()
            .try_for_each(|at| self.send(*at, MatroskaWriter::frame(1, *at, true, &SILENCE)))
    }

    /// Fills gaps whose packets are too late by now with silence.
    fn fill_late(&mut self, now: Instant) -> Result<(), String> {
        // A track that is muted from the start has no packet to start with, but its file lasts as
        // long.
        self.start_process(&EncodedFrame {
            at: Duration::ZERO,
            timestamp: 0,
            is_key: true,
            data: SILENCE.to_vec(),
            dimensions: None,
        })?;
        let silence = self.timeline.close(
            now.saturating_duration_since(self.start)
                .saturating_sub(MAX_LATENESS),
        );
        self.write_silence(&silence)
    }

    /// Fills the file up to `end`, with silence or with the last video frame.
    fn fill_to_end(&mut self, end: Duration) -> Result<(), String> {
        if self.codec == Codec::Opus && self.process.is_some() {
            let silence = self.timeline.fill(end);
            return self.write_silence(&silence);
        }
        let Some(last) = self.last.take() else {
            return Ok(());
        };
        let duration = end.saturating_sub(last.at);
        self.send(
            last.at,
            MatroskaWriter::last_frame(1, last.at, duration, last.is_key, &last.data),
        )
    }

    fn send(&mut self, at: Duration, frame: Vec<u8>) -> Result<(), String> {
        EgressProgress::set(
            &self.progress.media_millis,
            u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        );
        let Some(process) = &self.process else {
            return Ok(());
        };
        match process.try_send(frame) {
            Ok(()) => Ok(()),
            // The disk cannot keep up although a copied track needs little, and the queue, which
            // holds minutes, is full.
            Err(SendError::Full) => Err("the file cannot be written fast enough".into()),
            Err(SendError::Closed) => self.check_process(),
        }
    }

    fn check_process(&mut self) -> Result<(), String> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        match process.exit_status() {
            Some(status) => {
                let failure = process.failure(status);
                Err(self.output.hide_path(&failure))
            }
            None => Ok(()),
        }
    }
}

impl Pipeline for TrackPipeline {
    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn packet(&mut self, packet: RecordedPacket) -> Result<(), String> {
        // A publisher may switch to a backup codec, which the file's header does not allow.
        if packet.track != self.track || packet.codec != self.codec {
            return Ok(());
        }
        let frames = self.reader.push(packet, &mut self.publisher);
        EgressProgress::set(&self.progress.lost_frames, self.reader.lost);
        frames.into_iter().try_for_each(|frame| self.write(frame))
    }

    fn set_inputs(&mut self, inputs: Vec<InputParticipant>) -> Result<ControlFlow<()>, String> {
        let has_track = |participant: &InputParticipant| {
            participant
                .tracks
                .iter()
                .any(|track| track.sid == self.track)
        };
        self.participant = inputs.into_iter().find(has_track);
        // The track is no longer published, so the recording is complete.
        Ok(if self.participant.is_some() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    }

    fn tick(&mut self, now: Instant) -> Result<(), String> {
        if self.codec == Codec::Opus {
            self.fill_late(now)?;
        }
        EgressProgress::set(&self.progress.bytes, self.output.bytes());
        let buffered = self.process.as_ref().map(Process::buffered_bytes);
        EgressProgress::set(&self.progress.buffered_bytes, buffered.unwrap_or_default());
        // A frame above the size limit is reported as in a composition, so that the operator finds
        // one message for both.
        if self.left_out.is_due(now) {
            let left_out = self.reader.take_too_large().then(|| self.track.clone());
            self.left_out.record(
                &self.egress,
                left_out.into_iter().collect(),
                &self.progress,
                now,
            );
        }
        if let Some(participant) = self
            .participant
            .as_ref()
            .filter(|_| self.reader.needs_key_frame())
        {
            self.host
                .request_key_frame(&self.egress, (&participant.sid, &self.track));
        }
        self.check_process()
    }

    fn is_active(&self) -> bool {
        self.process.is_some()
    }

    fn finish(mut self: Box<Self>, end: Instant) -> Result<bool, String> {
        // An error here is dropped: ffmpeg's own message, read below, explains the failure better.
        let _ = self.fill_to_end(end.saturating_duration_since(self.start));
        let progress = Arc::clone(&self.progress);
        // Measured before an MP4 file is rewritten, since `finish` consumes the output.
        let bytes = self.output.bytes();
        let finished = self.output.finish(self.process);
        EgressProgress::set(&progress.bytes, bytes);
        finished
    }
}

/// Placement for audio packets in a file: back to back, with silence in the gaps.
#[derive(Debug, Default)]
pub struct AudioTimeline {
    /// End of the written audio, since the recording's start.
    end: Duration,
    /// Time before which packets are dropped, because it has been filled with silence.
    closed: Duration,
}

impl AudioTimeline {
    /// Returns times for silent packets that fill a gap up to `until`, and advances past them.
    /// Returns none for gaps below 60 ms.
    pub fn fill(&mut self, until: Duration) -> Vec<Duration> {
        let mut silence = Vec::new();
        if until >= self.end + MIN_GAP {
            while self.end + SILENCE_DURATION <= until {
                silence.push(self.end);
                self.end += SILENCE_DURATION;
            }
        }
        silence
    }

    /// Fills a gap like [`AudioTimeline::fill`], and drops packets for it from now on.
    pub fn close(&mut self, until: Duration) -> Vec<Duration> {
        let silence = self.fill(until);
        if !silence.is_empty() {
            self.closed = self.end;
        }
        silence
    }

    /// Returns a packet's time, and times for the silence before it; `None` if the packet is too
    /// late.
    pub fn insert(
        &mut self,
        captured: Duration,
        duration: Duration,
    ) -> Option<(Vec<Duration>, Duration)> {
        if captured < self.closed {
            return None;
        }
        let silence = self.fill(captured);
        // Not `captured`: jitter below the minimum gap would leave holes or overlaps, which players
        // render as clicks.
        let at = self.end;
        self.end += duration;
        Some((silence, at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn audio_after_a_mute_keeps_its_time_and_late_audio_is_dropped() {
        let mut timeline = AudioTimeline::default();
        assert!(timeline.close(millis(50)).is_empty(), "no pause yet");
        assert_eq!(timeline.close(millis(70)), [0, 20, 40].map(millis));
        assert_eq!(timeline.insert(millis(59), SILENCE_DURATION), None);
        assert_eq!(
            timeline.insert(millis(110), SILENCE_DURATION),
            Some((vec![], millis(60))),
            "no pause"
        );
        assert_eq!(
            timeline.insert(millis(205), SILENCE_DURATION),
            Some((
                [80, 100, 120, 140, 160, 180].map(millis).to_vec(),
                millis(200)
            ))
        );
    }

    proptest! {
        #[test]
        fn packets_follow_each_other_without_gaps_close_to_their_time(
            packets in prop::collection::vec((0_u64..200, any::<bool>()), 1..100),
        ) {
            let (mut timeline, mut now, mut written) = (AudioTimeline::default(), Duration::ZERO, Vec::new());
            for (step, is_packet) in packets {
                now += millis(step.max(20));
                if is_packet {
                    let (silence, at) = timeline.insert(now, SILENCE_DURATION).expect("nothing is late");
                    prop_assert!(at <= now && now < at + MIN_GAP + SILENCE_DURATION, "{now:?} at {at:?}");
                    written.extend(silence);
                    written.push(at);
                } else {
                    written.extend(timeline.close(now));
                }
            }
            for pair in written.windows(2) {
                prop_assert_eq!(pair[0] + SILENCE_DURATION, pair[1]);
            }
        }
    }
}
