//! Recording one track without transcoding.
//!
//! The file lasts as long as the recording. Gaps in audio are filled with silence. Video starts
//! with its first key frame, at that frame's time; in later gaps, the last frame stays. A pause is left
//! out: audio continues where it stopped, and a video's pause lasts until the next key frame.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::{EgressId, TrackSid};
use conclave_sfu::{Codec, RecordedPacket};

use super::Pipeline;
use super::handle::{EgressHost, InputParticipant};
use super::pauses::Pauses;
use crate::codec::{EncodedFrame, SILENCE, opus_duration, track_header};
use crate::composite::CHUNK;
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
    pauses: Pauses,
    /// Capture time of the latest written packet or frame.
    latest: Duration,
    /// Whether the video continues at the next key frame, after a pause.
    awaits_key_frame: bool,
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
            pauses: Pauses::default(),
            latest: Duration::ZERO,
            awaits_key_frame: false,
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

    fn write(&mut self, mut frame: EncodedFrame) -> Result<(), String> {
        if self.pauses.contains(frame.at) {
            return Ok(());
        }
        if self.awaits_key_frame {
            if !frame.is_key {
                return Ok(());
            }
            // Frames in between cannot be decoded, so they belong to the pause.
            self.awaits_key_frame = false;
            self.pauses.extend(frame.at);
        }
        self.latest = self.latest.max(frame.at);
        frame.at = self.pauses.output_time(frame.at);
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
        let late = now
            .saturating_duration_since(self.start)
            .saturating_sub(MAX_LATENESS);
        let silence = self.timeline.close(self.pauses.output_time(late));
        self.write_silence(&silence)
    }

    /// Fills the file up to `end`, with silence or with the last video frame.
    fn fill_to_end(&mut self, end: Duration) -> Result<(), String> {
        let end = self.pauses.output_time(end);
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

    fn set_paused(&mut self, paused: bool, at: Instant) {
        let at = at.saturating_duration_since(self.start);
        if !paused {
            self.awaits_key_frame |= self.pauses.is_paused() && self.codec != Codec::Opus;
            self.pauses.resume(at);
        } else if !self.pauses.is_paused() {
            // Not before what is written already, so that times in the file never go back.
            self.pauses.pause(at.max(self.latest + CHUNK));
            self.awaits_key_frame = false;
        }
    }

    fn tick(&mut self, now: Instant) -> Result<(), String> {
        if self.codec == Codec::Opus {
            self.fill_late(now)?;
        }
        let since_start = now.saturating_duration_since(self.start);
        self.pauses
            .forget_until(since_start.saturating_sub(2 * MAX_LATENESS));
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
            .filter(|_| self.awaits_key_frame || self.reader.needs_key_frame())
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
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use conclave_model::participant::TrackSource;
    use conclave_model::{ParticipantSid, ProjectId};
    use conclave_sfu::TrackSettings;
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;
    use crate::codec::Content;
    use crate::ffmpeg::{DiskBuffer, Ffmpeg, StopDeadline};
    use crate::matroska::MatroskaReader;
    use crate::output::reserve;
    use crate::pipeline::{EgressEvent, InputTrack};

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// VP8 packets with a whole 64x36 frame: a key frame, and an inter frame that refers to it.
    const KEY_FRAME: [u8; 12] = [0x10, 0x10, 2, 0, 0x9d, 0x01, 0x2a, 64, 0, 36, 0, 0];
    const INTER_FRAME: [u8; 12] = [0x10, 0x11, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    /// Host that counts requested key frames.
    #[derive(Default)]
    struct CountingHost(std::sync::atomic::AtomicUsize);

    impl EgressHost for CountingHost {
        fn handle(&self, _: &EgressId, _: EgressEvent) {}

        fn set_layer(&self, _: &EgressId, _: (&ParticipantSid, &TrackSid), _: TrackSettings) {}

        fn request_key_frame(&self, _: &EgressId, _: (&ParticipantSid, &TrackSid)) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Recording of one track whose ffmpeg, a script, copies its input into the file.
    struct Copied {
        pipeline: Box<TrackPipeline>,
        host: Arc<CountingHost>,
        sequence: u64,
        folder: TempDir,
    }

    impl Copied {
        fn start(codec: Codec) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let program = folder.path().join("ffmpeg");
            let script = "#!/bin/sh\ncase \"$*\" in\n*-version) echo 'ffmpeg version 5.1 of a test' ;;\n\
                          *-encoders) echo ' V..... libx264'; echo ' A..... aac' ;;\n\
                          *) for last; do :; done; cat > \"${last#file:}\" ;;\nesac\n";
            fs::write(&program, script).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let ffmpeg = Ffmpeg::detect(&program.display().to_string()).unwrap();
            let directory = folder.path().join("recordings");
            let names = (&"track.mkv".parse().unwrap(), &[][..]);
            let project = ProjectId::new();
            let file = reserve(&directory, &project, names, Content::Track(codec)).unwrap();
            let output = OutputFile::new(ffmpeg, file, StopDeadline::default());
            let bytes = 64 * 1024 * 1024;
            let backlog = DiskBuffer { directory, bytes };
            let host = Arc::new(CountingHost::default());
            let (egress, track) = ("EG_1".parse().unwrap(), "TR_1".parse().unwrap());
            let pipeline = TrackPipeline::new(
                (egress, track, codec),
                (output, backlog.into()),
                Arc::clone(&host) as Arc<dyn EgressHost>,
                Arc::default(),
            );
            let mut copied = Self {
                pipeline: Box::new(pipeline),
                host,
                sequence: 0,
                folder,
            };
            let track = InputTrack {
                sid: "TR_1".parse().unwrap(),
                source: TrackSource::Camera,
                codec,
                is_muted: false,
            };
            let alice = InputParticipant {
                sid: "PA_alice".parse().unwrap(),
                identity: "alice".parse().unwrap(),
                name: String::new(),
                tracks: vec![track],
            };
            let flow = copied.pipeline.set_inputs(vec![alice]);
            assert_eq!(flow, Ok(ControlFlow::Continue(())));
            copied
        }

        fn send(&mut self, at: u64, payload: &[u8]) {
            self.sequence += 1;
            let codec = self.pipeline.codec;
            let ticks = if codec == Codec::Opus { 48 } else { 90 };
            let is_key = codec == Codec::Opus || payload[1] & 1 == 0;
            let packet = RecordedPacket {
                track: self.pipeline.track.clone(),
                layer: 0,
                codec,
                sequence: self.sequence,
                timestamp: u32::try_from(at * ticks).unwrap(),
                is_marked: true,
                is_entry_point: is_key,
                payload: Arc::from(payload),
                arrived: self.pipeline.start + millis(at),
                report: None,
            };
            self.pipeline.packet(packet).unwrap();
        }

        fn set_paused(&mut self, paused: bool, at: u64) {
            self.pipeline
                .set_paused(paused, self.pipeline.start + millis(at));
        }

        fn tick(&mut self, at: u64) {
            self.pipeline
                .tick(self.pipeline.start + millis(at))
                .unwrap();
        }

        fn requested_key_frames(&self) -> usize {
            self.host.0.load(std::sync::atomic::Ordering::Relaxed)
        }

        /// Finishes the file. Returns its frames, each with its time in milliseconds.
        fn finish(self, end: u64) -> Vec<(u128, Vec<u8>)> {
            let (path, end) = (
                self.pipeline.output.path().to_owned(),
                self.pipeline.start + millis(end),
            );
            assert_eq!(self.pipeline.finish(end), Ok(true));
            let blocks = MatroskaReader::default().push(&fs::read(path).unwrap());
            drop(self.folder);
            blocks
                .into_iter()
                .map(|block| (block.at.as_millis(), block.data))
                .collect()
        }
    }

    #[test]
    fn an_audio_tracks_pause_leaves_no_gap_and_no_silence() {
        let mut copied = Copied::start(Codec::Opus);
        // Longer than the time after which gaps are filled with silence.
        let (paused, resumed, end) = (1_000, 21_000, 22_000);
        for at in (0..end).step_by(20) {
            match at {
                1_000 => copied.set_paused(true, paused),
                2_000 => copied.set_paused(true, 2_000),
                21_000 => copied.set_paused(false, resumed),
                21_500 => copied.set_paused(false, 21_500),
                _ => {}
            }
            let payload = if (paused..resumed).contains(&at) {
                [0xfc, 1, 1]
            } else {
                SILENCE
            };
            copied.send(at, &payload);
            if at % 500 == 0 {
                copied.tick(at);
            }
        }
        let frames = copied.finish(end);
        let expected: Vec<_> = (0..100)
            .map(|number| (number * 20, SILENCE.to_vec()))
            .collect();
        assert_eq!(frames, expected);
    }

    #[test]
    fn a_video_tracks_pause_lasts_until_a_key_frame_which_is_requested() {
        let mut copied = Copied::start(Codec::Vp8);
        copied.send(0, &KEY_FRAME);
        for at in (40..3_000).step_by(40) {
            match at {
                1_000 => copied.set_paused(true, 990),
                2_000 => {
                    copied.tick(1_990);
                    assert_eq!(copied.requested_key_frames(), 0);
                    copied.set_paused(false, 1_990);
                    copied.tick(2_000);
                    assert_eq!(copied.requested_key_frames(), 1);
                }
                _ => {}
            }
            let payload = if at == 2_400 { KEY_FRAME } else { INTER_FRAME };
            copied.send(at, &payload);
        }
        copied.tick(3_000);
        assert_eq!(
            copied.requested_key_frames(),
            1,
            "the key frame has arrived"
        );
        let frames = copied.finish(3_000);
        // The pause starts at 980, and ends with the key frame.
        let before = (0..1_000).step_by(40).collect::<Vec<u128>>();
        let after = (980..1_580).step_by(40).collect::<Vec<u128>>();
        let times: Vec<_> = frames.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [before, after].concat());
        let keys: Vec<_> = frames
            .iter()
            .filter(|(_, data)| data[0] & 1 == 0)
            .map(|(at, _)| *at)
            .collect();
        assert_eq!(keys, [0, 980]);
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
