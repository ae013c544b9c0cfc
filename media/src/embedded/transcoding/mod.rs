//! The transcoding of one medium of a stream: a child process that is started when it is needed, and again when it ends.

use std::time::{Duration, Instant};

use conclave_egress::{Announced, Ffmpeg, FfmpegError, Priority, SendError, of_units};
use conclave_model::ProjectId;
use conclave_model::permits::ProjectPermit;
use tokio::task::spawn_blocking;

use super::flv::{self, AudioTag, ExtendedTag, Medium, VideoTag};
use super::timeline::MediaTime;
use super::transcoder::{Transcoded, Transcoder};
use crate::embedded::plane::EmbeddedPlane;
use crate::redact::redact_urls;

/// How often ffmpeg may end before the medium is given up.
const MAX_FAILURES: u32 = 3;
/// How long is waited for a key frame after messages were dropped. An encoder with intra refresh sends no more of them: a decoder
/// recovers without.
const KEY_FRAME_WAIT: Duration = Duration::from_secs(5);
/// How long it may take until it has made something for the first time.
const FIRST_RESULT: Duration = Duration::from_secs(30);

/// The transcoding of one medium.
pub struct Transcoding {
    medium: Medium,
    /// The message with the parameters, which each process has to know.
    header: Option<Vec<u8>>,
    /// Bytes of the length before each unit of a frame, as the parameters say.
    length_size: usize,
    running: Option<Transcoder>,
    failures: u32,
    /// When the first message came, if one did.
    awaited_since: Option<Instant>,
    /// Whether ffmpeg has made something.
    has_made: bool,
    /// Whether the video has the extended header of Enhanced RTMP.
    is_extended: bool,
    /// Since when messages are dropped until one with which a decoder can begin; `None` if they are not.
    awaits_key: Option<Instant>,
}

/// Why a medium cannot be transcoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TranscodeError(String);

/// What a message is for a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Codec parameters, which come before the media that they describe.
    Header,
    /// It can begin with it.
    Entry,
    /// It cannot begin with it.
    Other,
}

impl Transcoding {
    /// Creates the transcoding of a medium that may need none.
    pub const fn new(medium: Medium) -> Self {
        Self {
            medium,
            header: None,
            length_size: 4,
            running: None,
            failures: 0,
            awaited_since: None,
            has_made: false,
            is_extended: false,
            awaits_key: None,
        }
    }

    /// Transcodes a message. One that ffmpeg has no time for is dropped.
    ///
    /// # Errors
    /// There is no ffmpeg, or it does not work.
    pub async fn push(
        &mut self,
        plane: &EmbeddedPlane,
        project: &ProjectId,
        (time, body): (MediaTime, Vec<u8>),
    ) -> Result<(), TranscodeError> {
        self.check_size(&body)?;
        if !self.has_made
            && self
                .awaited_since
                .get_or_insert_with(Instant::now)
                .elapsed()
                > FIRST_RESULT
        {
            return Err(TranscodeError("ffmpeg makes nothing of it".into()));
        }
        self.is_extended = self.medium == Medium::Video && flv::read_extended(&body).is_some();
        let role = role(self.medium, &body);
        if role == Role::Header {
            self.header = Some(body.clone());
        }
        if self.running.is_none() {
            // The parameters are given to it in any case.
            if role != Role::Entry {
                return Ok(());
            }
            self.start(plane, project, time).await?;
        }
        if self
            .awaits_key
            .is_some_and(|since| since.elapsed() < KEY_FRAME_WAIT)
            && role == Role::Other
        {
            return Ok(());
        }
        let sent = self
            .running
            .as_ref()
            .map(|running| running.send(time, &body));
        self.awaits_key = (sent == Some(Err(SendError::Full))).then(Instant::now);
        Ok(())
    }

    /// Refuses pictures for which a decoder would take too much memory. Those of other codecs than H.264 are left to the limits of ffmpeg.
    fn check_size(&mut self, body: &[u8]) -> Result<(), TranscodeError> {
        let announced = match (self.medium, flv::read_video(body)) {
            (Medium::Video, Some(VideoTag::Parameters(parameters))) => {
                self.length_size = parameters.length_size;
                of_units(parameters.sets.iter().map(Vec::as_slice))
            }
            (Medium::Video, Some(VideoTag::Frame { units, .. })) => {
                of_units(flv::units(units, self.length_size))
            }
            _ => Announced::Nothing,
        };
        match announced {
            Announced::Refused => Err(TranscodeError(
                "the pictures are larger, or need more reference frames, than level 5.2 allows, or do not say how large they are".into(),
            )),
            Announced::Nothing | Announced::Size(..) => Ok(()),
        }
    }

    async fn start(
        &mut self,
        plane: &EmbeddedPlane,
        project: &ProjectId,
        time: MediaTime,
    ) -> Result<(), TranscodeError> {
        if self.failures > MAX_FAILURES {
            return Err(TranscodeError("ffmpeg ends again and again".into()));
        }
        let ffmpeg = plane.ffmpeg().await.unwrap_or(Err(FfmpegError::NotFound));
        let ffmpeg = ffmpeg.map_err(|error| TranscodeError(error.to_string()))?;
        require_encoder(&ffmpeg, self.medium)?;
        if self.is_extended && !ffmpeg.reads_enhanced_flv() {
            let version = &ffmpeg.version;
            let problem = "ffmpeg reads HEVC, AV1 and VP9 of RTMP encoders from version 6.1 on";
            return Err(TranscodeError(format!(
                "{problem}, and this one is {version}"
            )));
        }
        let (medium, start) = (self.medium, time.time);
        let permit = take_permit(plane, medium, project)
            .ok_or_else(|| TranscodeError("as much is transcoded as this server allows".into()))?;
        let priority = plane
            .inner()
            .jobs
            .as_ref()
            .map_or(Priority::new(0), |jobs| jobs.engine().priority());
        let started =
            spawn_blocking(move || Transcoder::start((&ffmpeg, priority), medium, start, permit))
                .await;
        let started = started.map_err(|_| TranscodeError("ffmpeg could not be started".into()))?;
        let running = started
            .map_err(|error| TranscodeError(format!("ffmpeg cannot be started: {error}")))?;
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
            let Some(running) = &mut self.running else {
                std::future::pending().await
            };
            if let Some(made) = running.next().await {
                self.has_made = true;
                return Ok(made);
            }
            let Some(ended) = self.running.take() else {
                continue;
            };
            self.failures += 1;
            let failure = redact_urls(&ended.failure().await);
            log::warn!(failures = self.failures; "ffmpeg for an RTMP encoder ended: {failure}");
            if self.failures > MAX_FAILURES {
                return Err(TranscodeError(failure));
            }
        }
    }
}

/// Takes the permit of a transcoder; `None` if the server or the project has none left.
fn take_permit(
    plane: &EmbeddedPlane,
    medium: Medium,
    project: &ProjectId,
) -> Option<ProjectPermit> {
    let transcoders = plane.inner().jobs.as_ref()?.engine().transcoders();
    match medium {
        Medium::Audio => transcoders.take_sound(project),
        Medium::Video => transcoders.take_pictures(project),
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
        Medium::Video => match (flv::read_extended(body), flv::read_video(body)) {
            (Some(ExtendedTag::Parameters), _) | (_, Some(VideoTag::Parameters(_))) => Role::Header,
            (Some(ExtendedTag::Frame { is_key: false } | ExtendedTag::Nothing), _)
            | (_, Some(VideoTag::Frame { is_key: false, .. })) => Role::Other,
            // Of other codecs, any frame may be one to begin with.
            _ => Role::Entry,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_that_take_too_much_memory_are_refused_in_the_parameters_and_in_a_frame() {
        // The parameters of 8192x8192 with 16 reference frames: the numbers 511 and 511 behind 16.
        let set = [
            0x67,
            66,
            0xc0,
            31,
            0b1101_1000,
            0b0100_0100,
            0,
            0b0100_0000,
            0,
            0,
            0b0010_0000,
            0b0000_0110,
            0b1000_0000,
        ];
        let parameters = [
            &[0x17, 0, 0, 0, 0, 1, 66, 0xc0, 31, 0xff, 0xe1, 0, 13][..],
            &set,
            &[1, 0, 1, 0x68],
        ]
        .concat();
        let frame = [&[0x17, 1, 0, 0, 0, 0, 0, 0, 13][..], &set].concat();
        for body in [parameters, frame] {
            assert!(
                Transcoding::new(Medium::Video).check_size(&body).is_err(),
                "{body:?}"
            );
            assert!(Transcoding::new(Medium::Audio).check_size(&body).is_ok());
        }
        assert!(
            Transcoding::new(Medium::Video)
                .check_size(&[0x27, 1, 0, 0, 0, 0, 0, 0, 2, 0x41, 9])
                .is_ok()
        );
    }

    #[test]
    fn a_decoder_begins_with_sound_or_with_a_key_frame_after_the_parameters() {
        assert_eq!(role(Medium::Audio, &[0xaf, 0, 0x12, 0x10]), Role::Header);
        assert_eq!(role(Medium::Audio, &[0xaf, 1, 0]), Role::Entry);
        assert_eq!(role(Medium::Video, &[0x17, 1, 0, 0, 0]), Role::Entry);
        assert_eq!(role(Medium::Video, &[0x27, 1, 0, 0, 0]), Role::Other);
        assert_eq!(role(Medium::Video, &[0x22, 0]), Role::Entry);
        let extended = |first: u8| role(Medium::Video, &[&[first][..], b"hvc1", &[0; 8]].concat());
        assert_eq!(
            [0x90, 0x91, 0x93].map(extended),
            [Role::Header, Role::Entry, Role::Entry]
        );
        assert_eq!([0xa1, 0xa3, 0x92, 0x94].map(extended), [Role::Other; 4]);
    }
}
