//! The recording of one track as it is.
//!
//! The file lasts as long as the recording. While nothing is sent of audio, it is silent. Video begins with its first key frame, at the
//! time of that; while nothing is sent of it later, the last frame stays.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::{EgressId, TrackSid};
use conclave_sfu::{Codec, RecordedPacket};

use super::Job;
use super::handle::{Attendee, EgressHost};
use crate::codec::{Frame, SILENCE, opus_duration, track_header};
use crate::ffmpeg::{Capacity, Process, SendError};
use crate::matroska::Writer;
use crate::output::OutputFile;
use crate::progress::{LeftOut, Progress};
use crate::rtp::{PublisherClock, TrackReader};

/// How often ffmpeg is looked after.
const INTERVAL: Duration = Duration::from_millis(250);
/// How late a packet of audio may come. What is missing is silence from then on, so that a pause of any length comes to ffmpeg bit by bit.
const LATE: Duration = Duration::from_secs(5);
/// The duration of a packet of silence.
const STEP: Duration = Duration::from_millis(20);
/// A pause from which on it is filled with silence.
const PAUSE: Duration = Duration::from_millis(60);

/// Records a track without encoding it again.
pub struct TrackJob {
    egress: EgressId,
    track: TrackSid,
    host: Arc<dyn EgressHost>,
    progress: Arc<Progress>,
    start: Instant,
    codec: Codec,
    publisher: PublisherClock,
    reader: TrackReader,
    /// The participant that publishes the track, once it is known.
    attendee: Option<Attendee>,
    output: OutputFile,
    /// Bounds of what waits for ffmpeg.
    backlog: Capacity,
    process: Option<Process>,
    /// The last frame of video, which lasts until the next one.
    last: Option<Frame>,
    timeline: AudioTimeline,
    left_out: LeftOut,
}

impl TrackJob {
    pub fn new(
        (egress, track, codec): (EgressId, TrackSid, Codec),
        (output, backlog): (OutputFile, Capacity),
        host: Arc<dyn EgressHost>,
        progress: Arc<Progress>,
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
            attendee: None,
            output,
            backlog,
            process: None,
            last: None,
            timeline: AudioTimeline::default(),
            left_out: LeftOut::default(),
        }
    }

    /// Starts ffmpeg, unless the header of the file needs another frame than this one.
    fn begin(&mut self, frame: &Frame) -> Result<(), String> {
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
            .try_send(Writer::header(&[header]))
            .map_err(|_| "ffmpeg does not read".to_owned())?;
        self.process = Some(process);
        Ok(())
    }

    fn write(&mut self, frame: Frame) -> Result<(), String> {
        self.begin(&frame)?;
        if self.codec == Codec::Opus {
            return self.write_audio(&frame);
        }
        if self.process.is_none() {
            return Ok(());
        }
        self.progress.add_frames(1);
        match self.last.replace(frame) {
            Some(before) => self.send(
                before.at,
                Writer::frame(1, before.at, before.is_key, &before.data),
            ),
            None => Ok(()),
        }
    }

    fn write_audio(&mut self, packet: &Frame) -> Result<(), String> {
        let duration = opus_duration(&packet.data).unwrap_or_default();
        let Some((silence, at)) = self.timeline.place(packet.at, duration) else {
            return Ok(());
        };
        self.write_silence(&silence)?;
        self.send(at, Writer::frame(1, at, true, &packet.data))
    }

    fn write_silence(&mut self, times: &[Duration]) -> Result<(), String> {
        times
            .iter()
            .try_for_each(|at| self.send(*at, Writer::frame(1, *at, true, &SILENCE)))
    }

    /// Fills what no packet of audio comes for any more.
    fn fill_late(&mut self, now: Instant) -> Result<(), String> {
        self.begin(&Frame {
            at: Duration::ZERO,
            timestamp: 0,
            is_key: true,
            data: SILENCE.to_vec(),
            dimensions: None,
        })?;
        let silence = self.timeline.close(
            now.saturating_duration_since(self.start)
                .saturating_sub(LATE),
        );
        self.write_silence(&silence)
    }

    /// Writes up to the end: silence, or the last frame of video.
    fn complete(&mut self, end: Duration) -> Result<(), String> {
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
            Writer::last_frame(1, last.at, duration, last.is_key, &last.data),
        )
    }

    fn send(&mut self, at: Duration, frame: Vec<u8>) -> Result<(), String> {
        Progress::set(
            &self.progress.media_millis,
            u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        );
        let Some(process) = &self.process else {
            return Ok(());
        };
        match process.try_send(frame) {
            Ok(()) => Ok(()),
            // The disk is too slow for a stream that is far slower than any disk, and the buffer of minutes is full.
            Err(SendError::Full) => Err("the file cannot be written fast enough".into()),
            Err(SendError::Closed) => self.check_process(),
        }
    }

    fn check_process(&mut self) -> Result<(), String> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        match process.ended() {
            Some(status) => {
                let failure = process.failure(status);
                Err(self.output.hide_path(&failure))
            }
            None => Ok(()),
        }
    }
}

impl Job for TrackJob {
    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn packet(&mut self, packet: RecordedPacket) -> Result<(), String> {
        if packet.track != self.track || packet.codec != self.codec {
            return Ok(());
        }
        let frames = self.reader.push(packet, &mut self.publisher);
        Progress::set(&self.progress.lost_frames, self.reader.lost);
        frames.into_iter().try_for_each(|frame| self.write(frame))
    }

    fn attend(&mut self, attendees: Vec<Attendee>) -> Result<ControlFlow<()>, String> {
        let has_track =
            |attendee: &Attendee| attendee.tracks.iter().any(|track| track.sid == self.track);
        self.attendee = attendees.into_iter().find(has_track);
        // Without its track, the recording is complete.
        Ok(if self.attendee.is_some() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    }

    fn tick(&mut self, now: Instant) -> Result<(), String> {
        if self.codec == Codec::Opus {
            self.fill_late(now)?;
        }
        Progress::set(&self.progress.bytes, self.output.bytes());
        let buffered = self.process.as_ref().map(Process::buffered_bytes);
        Progress::set(&self.progress.buffered_bytes, buffered.unwrap_or_default());
        if self.left_out.is_due(now) {
            let left_out = self.reader.take_too_large().then(|| self.track.clone());
            self.left_out.note(
                &self.egress,
                left_out.into_iter().collect(),
                &self.progress,
                now,
            );
        }
        if let Some(attendee) = self
            .attendee
            .as_ref()
            .filter(|_| self.reader.needs_key_frame())
        {
            self.host
                .request_key_frame(&self.egress, (&attendee.sid, &self.track));
        }
        self.check_process()
    }

    fn is_active(&self) -> bool {
        self.process.is_some()
    }

    fn finish(mut self: Box<Self>, end: Instant) -> Result<bool, String> {
        // What ffmpeg says when it ends is the better reason of a failure.
        let _ = self.complete(end.saturating_duration_since(self.start));
        let progress = Arc::clone(&self.progress);
        let bytes = self.output.bytes();
        let finished = self.output.finish(self.process);
        Progress::set(&progress.bytes, bytes);
        finished
    }
}

/// When the packets of a file of audio are heard: one after another, with silence in the pauses.
#[derive(Debug, Default)]
pub struct AudioTimeline {
    /// Up to where it is written, since the start.
    end: Duration,
    /// Up to where packets come too late: their time has been filled with silence.
    closed: Duration,
}

impl AudioTimeline {
    /// Returns the times of the packets of silence that a pause needs up to a moment. The time line goes on behind them.
    pub fn fill(&mut self, until: Duration) -> Vec<Duration> {
        let mut silence = Vec::new();
        if until >= self.end + PAUSE {
            while self.end + STEP <= until {
                silence.push(self.end);
                self.end += STEP;
            }
        }
        silence
    }

    /// Fills like [`AudioTimeline::fill`] what no packet is waited for any more.
    pub fn close(&mut self, until: Duration) -> Vec<Duration> {
        let silence = self.fill(until);
        if !silence.is_empty() {
            self.closed = self.end;
        }
        silence
    }

    /// Returns the time of a packet that was captured at a moment, and those of the silence before it; `None` if it comes too late.
    pub fn place(
        &mut self,
        captured: Duration,
        duration: Duration,
    ) -> Option<(Vec<Duration>, Duration)> {
        if captured < self.closed {
            return None;
        }
        let silence = self.fill(captured);
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
    fn what_is_heard_first_after_a_mute_has_its_time_and_what_comes_too_late_is_left_out() {
        let mut timeline = AudioTimeline::default();
        assert!(timeline.close(millis(50)).is_empty(), "no pause yet");
        assert_eq!(timeline.close(millis(70)), [0, 20, 40].map(millis));
        assert_eq!(timeline.place(millis(59), STEP), None);
        assert_eq!(
            timeline.place(millis(110), STEP),
            Some((vec![], millis(60))),
            "no pause"
        );
        assert_eq!(
            timeline.place(millis(205), STEP),
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
                    let (silence, at) = timeline.place(now, STEP).expect("nothing is late");
                    prop_assert!(at <= now && now < at + PAUSE + STEP, "{now:?} at {at:?}");
                    written.extend(silence);
                    written.push(at);
                } else {
                    written.extend(timeline.close(now));
                }
            }
            for pair in written.windows(2) {
                prop_assert_eq!(pair[0] + STEP, pair[1]);
            }
        }
    }
}
