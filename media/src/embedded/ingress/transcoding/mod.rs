//! Transcoding of encoders' media into formats that all receivers play, with a child process per medium.
//!
//! - [`Transcoding`]: one medium, across restarts of its process. Its input is [`Message`]s in any container.
//! - [`transcoder`]: one ffmpeg process. [`flv`] and [`OggPackets`](packets::OggPackets) parse its output.
//! - [`timeline`]: media times on a stream's clock, the RTP clock and this machine's clock.
//! - [`packets`]: the output as RTP payloads.
//!
//! A process starts with the first media and restarts after a failure. It must not delay the connection: input that ffmpeg cannot process
//! in time is dropped, and so is everything after it until the next entry point.

pub mod flv;
pub mod packets;
pub mod timeline;
pub mod transcoder;

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_egress::{Ffmpeg, FfmpegError, Priority, SendError};
use conclave_model::ProjectId;
use conclave_model::permits::ProjectPermit;
use conclave_sfu::Codec;
use tokio::task::spawn_blocking;

use crate::embedded::plane::core::PlaneCore;
use crate::redact::redact_urls;

use flv::Medium;
use transcoder::{Transcoded, Transcoder};

/// Maximum number of ffmpeg failures before a medium is abandoned.
const MAX_FAILURES: u32 = 3;
/// Maximum wait for a key frame after messages were dropped. An encoder with intra refresh sends no more key frames,
/// and a decoder recovers without.
pub const KEY_FRAME_WAIT: Duration = Duration::from_secs(5);
/// Time limit for the first output.
const FIRST_RESULT: Duration = Duration::from_secs(30);

/// One medium's transcoding.
pub struct Transcoding {
    medium: Medium,
    running: Option<Transcoder>,
    /// Permit of the process that [`Transcoding::restart`] stopped.
    permit: Option<ProjectPermit>,
    failures: u32,
    /// The first message's time, if any.
    awaited_since: Option<Instant>,
    /// Whether ffmpeg has had any output.
    has_output: bool,
    /// Since when messages are dropped until the next entry point; `None` if they are not.
    awaits_entry: Option<Instant>,
}

/// Reason for not transcoding a medium.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TranscodeError(pub String);

impl TranscodeError {
    /// Creates the error for video whose decoder would need too much memory.
    pub fn too_large() -> Self {
        Self("the video is larger or needs more reference frames than level 5.2 allows, or its size is unknown".into())
    }
}

/// A message's role for a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameRole {
    /// Codec parameters, which come before the media that they describe.
    Header,
    /// A frame at which a decoder can start.
    Entry,
    /// A frame that depends on earlier ones.
    Other,
}

/// Container for ffmpeg's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputContainer {
    /// FLV, from RTMP encoders.
    Flv {
        /// Whether its video has Enhanced RTMP's extended header.
        is_extended: bool,
    },
    /// Video in Matroska, from WHIP encoders.
    Matroska(Codec),
}

/// Start of a process's input.
#[derive(Debug, PartialEq, Eq)]
pub struct InputOpening {
    /// The container.
    pub source: InputContainer,
    /// The bytes before the first message.
    pub bytes: Vec<u8>,
}

/// A transcoder's input: a frame, or codec parameters.
pub trait Message: Sync {
    /// Returns the time on the stream's time line.
    fn time(&self) -> Duration;

    /// Returns the role for a decoder.
    fn role(&self) -> FrameRole;

    /// Returns the input before this message if a process starts with it; `None` if no process can.
    fn opening(&self) -> Option<InputOpening>;

    /// Returns the message in its container, at a time since the process's first message; `None` if it is too large.
    fn chunk(&self, since: Duration) -> Option<Vec<u8>>;
}

impl Transcoding {
    /// Creates the transcoding for a medium that may need none.
    pub const fn new(medium: Medium) -> Self {
        Self {
            medium,
            running: None,
            permit: None,
            failures: 0,
            awaited_since: None,
            has_output: false,
            awaits_entry: None,
        }
    }

    /// Transcodes a message. If ffmpeg does not keep up, the message is dropped.
    ///
    /// # Errors
    /// If ffmpeg is not installed or does not work.
    pub async fn push(
        &mut self,
        inner: &Arc<PlaneCore>,
        project: &ProjectId,
        message: &impl Message,
    ) -> Result<(), TranscodeError> {
        // A process that reads everything and writes nothing would otherwise never count as a failure.
        if !self.has_output
            && self
                .awaited_since
                .get_or_insert_with(Instant::now)
                .elapsed()
                > FIRST_RESULT
        {
            return Err(TranscodeError("ffmpeg has no output".into()));
        }
        let role = message.role();
        if self.running.is_none() {
            // Parameters are sent with the opening, so they need no process yet.
            let Some(opening) = message.opening().filter(|_| role == FrameRole::Entry) else {
                return Ok(());
            };
            self.start(inner, project, message.time(), opening).await?;
        }
        // Frames after a gap would only show errors until the next key frame.
        if self
            .awaits_entry
            .is_some_and(|since| since.elapsed() < KEY_FRAME_WAIT)
            && role == FrameRole::Other
        {
            return Ok(());
        }
        let sent = self.running.as_ref().map(|running| running.send(message));
        self.awaits_entry = (sent == Some(Err(SendError::Full))).then(Instant::now);
        Ok(())
    }

    /// Returns whether messages are dropped until the next entry point.
    pub const fn needs_entry(&self) -> bool {
        self.running.is_none() || self.awaits_entry.is_some()
    }

    /// Stops the process. The next entry point starts a new process with the same permit.
    pub async fn restart(&mut self) {
        if let Some(running) = self.running.take() {
            self.permit = running.end().await;
        }
    }

    async fn start(
        &mut self,
        inner: &Arc<PlaneCore>,
        project: &ProjectId,
        start: Duration,
        opening: InputOpening,
    ) -> Result<(), TranscodeError> {
        if self.failures > MAX_FAILURES {
            return Err(TranscodeError("ffmpeg fails repeatedly".into()));
        }
        let ffmpeg = inner.ffmpeg().await.unwrap_or(Err(FfmpegError::NotFound));
        let ffmpeg = ffmpeg.map_err(|error| TranscodeError(error.to_string()))?;
        require_encoder(&ffmpeg, self.medium)?;
        // Checked in advance: an older ffmpeg would fail without naming the reason.
        let is_extended = opening.source == InputContainer::Flv { is_extended: true };
        if is_extended && !ffmpeg.reads_enhanced_flv() {
            let version = &ffmpeg.version;
            let problem = "HEVC, AV1 and VP9 from RTMP encoders need ffmpeg 6.1 or newer";
            return Err(TranscodeError(format!(
                "{problem}, and this one is {version}"
            )));
        }
        let medium = self.medium;
        let permit = self
            .permit
            .take()
            .or_else(|| take_permit(inner, medium, project))
            .ok_or_else(|| TranscodeError("the transcoding limit is reached".into()))?;
        let priority = inner
            .jobs
            .as_ref()
            .map_or(Priority::new(0), |jobs| jobs.engine().priority());
        // Starting a process blocks for some milliseconds.
        let started = spawn_blocking(move || {
            Transcoder::start((&ffmpeg, priority), medium, (start, opening), permit)
        })
        .await;
        let started = started.map_err(|_| TranscodeError("ffmpeg could not be started".into()))?;
        let running = started
            .map_err(|error| TranscodeError(format!("ffmpeg cannot be started: {error}")))?;
        self.running = Some(running);
        Ok(())
    }

    /// Waits for the next output; pending forever without a process. When ffmpeg ends, a later message restarts it.
    ///
    /// # Errors
    /// If ffmpeg has failed too often.
    pub async fn next(&mut self) -> Result<Transcoded, TranscodeError> {
        loop {
            let Some(running) = &mut self.running else {
                std::future::pending().await
            };
            if let Some(output) = running.next().await {
                self.has_output = true;
                return Ok(output);
            }
            let Some(ended) = self.running.take() else {
                continue;
            };
            self.failures += 1;
            let failure = redact_urls(&ended.failure().await);
            log::warn!(failures = self.failures; "ffmpeg for an encoder failed: {failure}");
            if self.failures > MAX_FAILURES {
                return Err(TranscodeError(failure));
            }
        }
    }
}

/// Acquires a transcoder's permit; `None` if the server or the project has none left.
fn take_permit(inner: &PlaneCore, medium: Medium, project: &ProjectId) -> Option<ProjectPermit> {
    let transcoders = inner.jobs.as_ref()?.engine().transcoders();
    match medium {
        Medium::Audio => transcoders.take_audio(project),
        Medium::Video => transcoders.take_video(project),
    }
}

/// Rejects an ffmpeg without the encoder for a medium.
fn require_encoder(ffmpeg: &Ffmpeg, medium: Medium) -> Result<(), TranscodeError> {
    let encoder = match medium {
        Medium::Audio => "libopus",
        Medium::Video => "libx264",
    };
    let missing = || TranscodeError(format!("ffmpeg {} has no {encoder}", ffmpeg.version));
    ffmpeg.encoder(&[encoder]).map(drop).ok_or_else(missing)
}
