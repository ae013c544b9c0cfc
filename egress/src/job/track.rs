//! The recording of one track as it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::{EgressId, TrackSid};
use conclave_rtc::{Codec, RecordedPacket};

use super::handle::{Attendee, EgressHost, Progress};
use super::run::Job;
use crate::matroska::Writer;
use crate::output::OutputFile;
use crate::process::{Process, SendError};
use crate::rtp::{Frame, PublisherClock, SILENCE, TrackReader, opus_duration};
use crate::source::header;

/// How often ffmpeg is looked after.
const INTERVAL: Duration = Duration::from_millis(250);
/// Frames that wait for ffmpeg: some seconds of video.
const QUEUE: usize = 512;
/// A pause of audio from which on it is filled with silence.
const PAUSE: Duration = Duration::from_millis(60);
/// The duration of a packet of silence.
const STEP: Duration = Duration::from_millis(20);

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
    process: Option<Process>,
    /// When the first frame was captured, since the start.
    first: Duration,
    /// Up to where audio is written, since the start.
    end: Duration,
}

impl TrackJob {
    pub fn new(
        (egress, track, codec): (EgressId, TrackSid, Codec),
        output: OutputFile,
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
            process: None,
            first: Duration::ZERO,
            end: Duration::ZERO,
        }
    }

    fn write(&mut self, frame: &Frame) -> Result<(), String> {
        if self.process.is_none() {
            let Some(header) = header(self.codec, frame) else { return Ok(()) };
            let process = self.output.start(&["-c".into(), "copy".into()], QUEUE)?;
            process.send(Writer::header(&[header])).map_err(|_| "ffmpeg does not read".to_owned())?;
            self.process = Some(process);
            (self.first, self.end) = (frame.at, frame.at);
        }
        if self.codec != Codec::Opus {
            Progress::add(&self.progress.frames, 1);
            return self.send(frame.at, frame.is_key, &frame.data);
        }
        self.fill(frame.at)?;
        let at = self.end;
        self.end += opus_duration(&frame.data).unwrap_or_default();
        self.send(at, true, &frame.data)
    }

    /// Fills a pause of audio with silence, up to this moment.
    fn fill(&mut self, until: Duration) -> Result<(), String> {
        if until < self.end + PAUSE {
            return Ok(());
        }
        while self.end + STEP <= until {
            let at = self.end;
            self.end += STEP;
            self.send(at, true, &SILENCE)?;
        }
        Ok(())
    }

    fn send(&mut self, at: Duration, is_key: bool, data: &[u8]) -> Result<(), String> {
        let at = at.saturating_sub(self.first);
        Progress::set(&self.progress.media_millis, u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
        let Some(process) = &self.process else { return Ok(()) };
        match process.try_send(Writer::frame(1, at, is_key, data)) {
            Ok(()) => Ok(()),
            // The disk is too slow for a stream that is far slower than any disk.
            Err(SendError::Full) => Err("the file cannot be written fast enough".into()),
            Err(SendError::Closed) => self.check_process(),
        }
    }

    fn check_process(&mut self) -> Result<(), String> {
        let Some(process) = &mut self.process else { return Ok(()) };
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
        frames.iter().try_for_each(|frame| self.write(frame))
    }

    fn attend(&mut self, attendees: Vec<Attendee>) -> Result<bool, String> {
        let has_track = |attendee: &Attendee| attendee.tracks.iter().any(|track| track.sid == self.track);
        self.attendee = attendees.into_iter().find(has_track);
        // Without its track, the recording is complete.
        Ok(self.attendee.is_some())
    }

    fn tick(&mut self, _now: Instant) -> Result<(), String> {
        Progress::set(&self.progress.bytes, self.output.bytes());
        if let Some(attendee) = self.attendee.as_ref().filter(|_| self.reader.needs_key_frame()) {
            self.host.request_key_frame(&self.egress, (&attendee.sid, &self.track));
        }
        self.check_process()
    }

    fn is_active(&self) -> bool {
        self.process.is_some()
    }

    fn finish(mut self: Box<Self>, now: Instant) -> Result<bool, String> {
        if self.codec == Codec::Opus && self.process.is_some() {
            // What ffmpeg says when it ends is the better reason of a failure.
            let _ = self.fill(now.saturating_duration_since(self.start));
        }
        let progress = Arc::clone(&self.progress);
        let bytes = self.output.bytes();
        let finished = self.output.finish(self.process);
        Progress::set(&progress.bytes, bytes);
        finished
    }
}
