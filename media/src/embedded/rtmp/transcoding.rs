//! The transcoding of one medium of a stream: a child process that is started when it is needed, and again when it ends.

use conclave_egress::{Ffmpeg, FfmpegError, SendError};
use tokio::task::spawn_blocking;

use super::flv::{self, AudioTag, Medium, VideoTag};
use super::timeline::MediaTime;
use super::transcoder::{Transcoded, Transcoder};
use crate::embedded::plane::EmbeddedPlane;
use crate::redact::redact_urls;

/// How often ffmpeg may end before the medium is given up.
const MAX_FAILURES: u32 = 3;

/// The transcoding of one medium.
pub struct Transcoding {
    medium: Medium,
    /// The message with the parameters, which each process has to know.
    header: Option<Vec<u8>>,
    running: Option<Transcoder>,
    failures: u32,
    /// Whether messages are dropped until one with which a decoder can begin.
    awaits_key: bool,
}

/// Why a medium cannot be transcoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TranscodeError(String);

/// What a message is for a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Its parameters.
    Header,
    /// It can begin with it.
    Entry,
    /// It cannot begin with it.
    Other,
}

impl Transcoding {
    /// Creates the transcoding of a medium that may need none.
    pub const fn new(medium: Medium) -> Self {
        Self { medium, header: None, running: None, failures: 0, awaits_key: false }
    }

    /// Transcodes a message. One that ffmpeg has no time for is dropped.
    ///
    /// # Errors
    /// There is no ffmpeg, or it does not work.
    pub async fn push(&mut self, plane: &EmbeddedPlane, time: MediaTime, body: Vec<u8>) -> Result<(), TranscodeError> {
        let role = role(self.medium, &body);
        if role == Role::Header {
            self.header = Some(body.clone());
        }
        if self.running.is_none() {
            // The parameters are given to it in any case.
            if role != Role::Entry {
                return Ok(());
            }
            self.start(plane, time).await?;
        }
        if self.awaits_key && role == Role::Other {
            return Ok(());
        }
        let sent = self.running.as_ref().map(|running| running.send(time, &body));
        self.awaits_key = sent == Some(Err(SendError::Full));
        Ok(())
    }

    async fn start(&mut self, plane: &EmbeddedPlane, time: MediaTime) -> Result<(), TranscodeError> {
        if self.failures > MAX_FAILURES {
            return Err(TranscodeError("ffmpeg ends again and again".into()));
        }
        let ffmpeg = plane.ffmpeg().await.unwrap_or(Err(FfmpegError::NotFound));
        let ffmpeg = ffmpeg.map_err(|error| TranscodeError(error.to_string()))?;
        require_encoder(&ffmpeg, self.medium)?;
        let (medium, start) = (self.medium, time.time);
        let started = spawn_blocking(move || Transcoder::start(&ffmpeg, medium, start)).await;
        let started = started.map_err(|_| TranscodeError("ffmpeg could not be started".into()))?;
        let running = started.map_err(|error| TranscodeError(format!("ffmpeg cannot be started: {error}")))?;
        if let Some(header) = &self.header {
            // The queue is empty.
            let _ = running.send(time, header);
        }
        self.running = Some(running);
        Ok(())
    }

    /// Returns what is made next; never while nothing is transcoded. When ffmpeg ends, it is started again with a later message.
    ///
    /// # Errors
    /// ffmpeg has ended too often.
    pub async fn next(&mut self) -> Result<Transcoded, TranscodeError> {
        loop {
            let Some(running) = &mut self.running else { std::future::pending().await };
            if let Some(made) = running.next().await {
                return Ok(made);
            }
            let Some(ended) = self.running.take() else { continue };
            self.failures += 1;
            let failure = redact_urls(&ended.failure().await);
            log::warn!(failures = self.failures; "ffmpeg for an RTMP encoder ended: {failure}");
            if self.failures > MAX_FAILURES {
                return Err(TranscodeError(failure));
            }
        }
    }
}

/// Refuses an ffmpeg without the encoder for a medium.
fn require_encoder(ffmpeg: &Ffmpeg, medium: Medium) -> Result<(), TranscodeError> {
    let encoder = match medium {
        Medium::Audio => "libopus",
        Medium::Video => "libx264",
    };
    let missing = || TranscodeError(format!("ffmpeg {} has no {encoder}", ffmpeg.version));
    ffmpeg.encoder(&[encoder]).map(drop).ok_or_else(missing)
}

fn role(medium: Medium, body: &[u8]) -> Role {
    match medium {
        Medium::Audio => match flv::read_audio(body) {
            Some(AudioTag::Parameters) => Role::Header,
            _ => Role::Entry,
        },
        Medium::Video => match flv::read_video(body) {
            Some(VideoTag::Parameters(_)) => Role::Header,
            Some(VideoTag::Frame { is_key: false, .. }) => Role::Other,
            // Of other codecs, any frame may be one to begin with.
            _ => Role::Entry,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_begins_with_sound_or_with_a_key_frame_after_the_parameters() {
        assert_eq!(role(Medium::Audio, &[0xaf, 0, 0x12, 0x10]), Role::Header);
        assert_eq!(role(Medium::Audio, &[0xaf, 1, 0]), Role::Entry);
        assert_eq!(role(Medium::Video, &[0x17, 1, 0, 0, 0]), Role::Entry);
        assert_eq!(role(Medium::Video, &[0x27, 1, 0, 0, 0]), Role::Other);
        assert_eq!(role(Medium::Video, &[0x22, 0]), Role::Entry);
    }
}
