//! Where recordings and broadcasts go.
//!
//! A file has a name and a format before anything is recorded (`reserve`); ffmpeg writes it (`file`). Composed pictures and mixed sound go
//! to a [`Sink`]: a file, or the receivers of a broadcast (`broadcast`), each of which has a connection that is made again when it is lost
//! (`target`). Both have an [`Encoder`] before them.

mod broadcast;
mod file;
mod reserve;
mod target;

use std::time::{Duration, Instant};

use conclave_model::settings::EgressConfig;

pub use broadcast::StreamSink;
pub use file::{FileSink, OutputFile};
pub use reserve::{ReserveError, container, reserve};

use crate::codec::Container;
use crate::ffmpeg::{Ffmpeg, Need, Process, SendError};
use crate::matroska::{Track, TrackKind, Writer};

/// Chunks behind which no further picture of a broadcast waits: it is live, and its receivers are not to fall behind.
const LIVE_CHUNKS: usize = 12;

/// Takes pictures and samples. An `Err` has the reason of a failure.
pub trait Sink: Send {
    /// Takes the planes of a picture. Returns whether there was room for it.
    fn write_picture(&mut self, at: Duration, planes: Vec<u8>, need: Need) -> Result<bool, String>;

    /// Takes the samples of a chunk.
    fn write_samples(&mut self, at: Duration, samples: Vec<u8>) -> Result<(), String>;

    /// Looks after processes.
    fn look_after(&mut self, now: Instant) -> Result<(), String>;

    /// Returns whether media is written or sent.
    fn is_active(&self) -> bool;

    /// Returns how many bytes were written or sent.
    fn bytes(&self) -> u64;

    /// Returns the bytes on disk that wait for the encoder.
    fn buffered_bytes(&self) -> u64;

    /// Ends the output; returns whether anything is in it.
    fn finish(self: Box<Self>) -> Result<bool, String>;
}

/// An encoder that reads pictures and samples.
pub struct Encoder {
    process: Process,
    media: Media,
    /// Whether it encodes a broadcast.
    is_live: bool,
}

impl Encoder {
    /// Wraps the process, and sends it the header of the stream.
    ///
    /// # Errors
    /// The process does not read.
    pub fn new(
        process: Process,
        media: Media,
        encoding: &EgressConfig,
        is_live: bool,
    ) -> Result<Self, String> {
        let header = Writer::header(&media.tracks(encoding));
        process
            .try_send(header)
            .map_err(|_| "the encoder does not read".to_owned())?;
        Ok(Self {
            process,
            media,
            is_live,
        })
    }

    /// Takes the planes of a picture. Returns whether there was room for it.
    pub fn write_picture(&self, at: Duration, planes: &[u8], need: Need) -> bool {
        let frame = || Writer::frame(self.media.numbers().0, at, true, planes);
        match need {
            Need::Required => self.process.try_send(frame()).is_ok(),
            Need::Optional if self.is_live && self.process.backlog() >= LIVE_CHUNKS => false,
            Need::Optional => self.process.offer(frame()).is_ok(),
        }
    }

    /// Takes the samples of a chunk.
    ///
    /// # Errors
    /// The encoder does not read.
    pub fn write_samples(&self, at: Duration, samples: &[u8]) -> Result<(), String> {
        match self
            .process
            .try_send(Writer::frame(self.media.numbers().1, at, true, samples))
        {
            // It has read nothing for as long as its buffer on disk has audio for.
            Err(SendError::Full) => Err("the encoder has stopped to read".into()),
            // One that has ended is quoted when it is looked after.
            Ok(()) | Err(SendError::Closed) => Ok(()),
        }
    }

    /// Returns why the encoder has ended by itself; `None` while it runs.
    pub fn failure(&mut self) -> Option<String> {
        let status = self.process.ended()?;
        Some(self.process.failure(status))
    }

    /// Returns the bytes on disk that wait for the encoder.
    pub fn buffered_bytes(&self) -> u64 {
        self.process.buffered_bytes()
    }

    /// Returns the process.
    pub fn into_process(self) -> Process {
        self.process
    }
}

/// The format whose codecs a broadcast has: FLV has those of MP4.
pub const BROADCAST: Container = Container::Mp4;

/// What an egress contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Media {
    pub has_video: bool,
    pub has_audio: bool,
}

impl Media {
    /// Returns the number of the track of the pictures, and that of the samples, in the stream to the encoder.
    pub const fn numbers(self) -> (u8, u8) {
        (1, if self.has_video { 2 } else { 1 })
    }

    /// Returns the tracks of the stream to the encoder.
    pub fn tracks(self, encoding: &EgressConfig) -> Vec<Track> {
        let EgressConfig {
            width,
            height,
            frame_rate,
            ..
        } = *encoding;
        let pictures = TrackKind::Pictures {
            width,
            height,
            rate: frame_rate,
        };
        let kinds = [
            (self.has_video, pictures),
            (self.has_audio, TrackKind::Samples),
        ];
        kinds
            .into_iter()
            .filter(|(is_there, _)| *is_there)
            .map(|(_, kind)| Track {
                kind,
                private: vec![],
            })
            .collect()
    }
}

/// Returns the arguments for ffmpeg.
///
/// # Errors
/// The codec for which this ffmpeg has no encoder.
pub fn arguments(
    ffmpeg: &Ffmpeg,
    container: Container,
    media: Media,
    encoding: &EgressConfig,
) -> Result<Vec<String>, &'static str> {
    let mut arguments = Vec::new();
    if media.has_video {
        arguments.extend(video(ffmpeg, container, encoding)?);
    }
    if media.has_audio {
        arguments.extend(audio(ffmpeg, container, encoding)?);
    }
    Ok(arguments)
}

fn video(
    ffmpeg: &Ffmpeg,
    container: Container,
    encoding: &EgressConfig,
) -> Result<Vec<String>, &'static str> {
    let wanted: (&[_], _) = match container {
        Container::Webm | Container::Ogg => (&["libvpx"], "VP8"),
        Container::Mp4 | Container::Matroska => (&["libx264", "h264_v4l2m2m"], "H264"),
    };
    let encoder = ffmpeg.encoder(wanted.0).ok_or(wanted.1)?;
    let mut arguments = vec!["-c:v", encoder, "-pix_fmt", "yuv420p"];
    match encoder {
        "libx264" => arguments.extend(["-preset", &encoding.preset, "-bf", "0"]),
        "libvpx" => arguments.extend(["-deadline", "realtime", "-cpu-used", "8"]),
        _ => {}
    }
    let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    let kbps = |kbps: u32| format!("{kbps}k");
    let rate = encoding.video_kbps;
    arguments.extend([
        "-b:v".into(),
        kbps(rate),
        "-maxrate".into(),
        kbps(rate),
        "-bufsize".into(),
        kbps(rate * 2),
    ]);
    // A key frame each two seconds: so much a crash loses at most.
    arguments.extend(["-g".into(), (encoding.frame_rate * 2).to_string()]);
    Ok(arguments)
}

fn audio(
    ffmpeg: &Ffmpeg,
    container: Container,
    encoding: &EgressConfig,
) -> Result<Vec<String>, &'static str> {
    let wanted: (&[_], _) = match container {
        Container::Webm | Container::Ogg => (&["libopus", "opus"], "Opus"),
        Container::Mp4 | Container::Matroska => (&["aac"], "AAC"),
    };
    let encoder = ffmpeg.encoder(wanted.0).ok_or(wanted.1)?;
    Ok(vec![
        "-c:a".into(),
        encoder.into(),
        "-b:a".into(),
        format!("{}k", encoding.audio_kbps),
    ])
}
