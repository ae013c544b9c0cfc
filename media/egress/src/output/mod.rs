//! Egress outputs.
//!
//! - `reserve` chooses a file's name and container before anything is recorded.
//! - `file` writes a file through ffmpeg, for a track or for a composition.
//! - `broadcast` and `target` encode once and send to several receivers, each with a connection
//!   that is re-established when it is lost.
//!
//! A composition writes to a [`Sink`], which has an [`Encoder`].

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
use crate::ffmpeg::{Ffmpeg, Importance, Process, SendError};
use crate::matroska::{MatroskaTrack, MatroskaTrackKind, MatroskaWriter};

// A broadcast is live: a longer backlog would only reach its receivers late. 12 chunks are 150 ms at 30 frames per second, with audio.
const MAX_LIVE_CHUNKS: usize = 12;

/// Composition output. An `Err` holds the failure's reason.
pub trait Sink: Send {
    /// Writes a raw frame. Returns whether it was accepted.
    fn write_frame(
        &mut self,
        at: Duration,
        planes: Vec<u8>,
        importance: Importance,
    ) -> Result<bool, String>;

    /// Writes an audio chunk.
    fn write_samples(&mut self, at: Duration, samples: Vec<u8>) -> Result<(), String>;

    /// Checks processes and connections.
    fn poll(&mut self, now: Instant) -> Result<(), String>;

    /// Returns whether media is being written or sent.
    fn is_active(&self) -> bool;

    /// Returns the bytes written or sent.
    fn bytes(&self) -> u64;

    /// Returns the bytes on disk that the encoder has not read yet.
    fn buffered_bytes(&self) -> u64;

    /// Finishes the output. Returns whether it has any content.
    fn finish(self: Box<Self>) -> Result<bool, String>;
}

/// ffmpeg process that encodes raw frames and samples.
pub struct Encoder {
    process: Process,
    media: Media,
    /// Whether it encodes a broadcast.
    is_live: bool,
}

impl Encoder {
    /// Wraps a process and sends it the stream's header.
    ///
    /// # Errors
    /// Fails if the process does not read.
    pub fn new(
        process: Process,
        media: Media,
        encoding: &EgressConfig,
        is_live: bool,
    ) -> Result<Self, String> {
        let header = MatroskaWriter::header(&media.tracks(encoding));
        process
            .try_send(header)
            .map_err(|_| "the encoder does not read".to_owned())?;
        Ok(Self {
            process,
            media,
            is_live,
        })
    }

    /// Writes a raw frame. Returns whether it was accepted.
    pub fn write_frame(&self, at: Duration, planes: &[u8], importance: Importance) -> bool {
        let frame = || MatroskaWriter::frame(self.media.track_numbers().0, at, true, planes);
        match importance {
            Importance::Required => self.process.try_send(frame()).is_ok(),
            Importance::Optional
                if self.is_live && self.process.unread_chunks() >= MAX_LIVE_CHUNKS =>
            {
                false
            }
            Importance::Optional => self.process.try_send_optional(frame()).is_ok(),
        }
    }

    /// Writes an audio chunk.
    ///
    /// # Errors
    /// Fails if the encoder has stopped reading.
    pub fn write_samples(&self, at: Duration, samples: &[u8]) -> Result<(), String> {
        match self.process.try_send(MatroskaWriter::frame(
            self.media.track_numbers().1,
            at,
            true,
            samples,
        )) {
            // The encoder has read nothing for as long as the disk buffer holds audio.
            Err(SendError::Full) => Err("the encoder stopped reading".into()),
            // If the encoder has exited, the next check reports the reason.
            Ok(()) | Err(SendError::Closed) => Ok(()),
        }
    }

    /// Returns the reason if the encoder has exited by itself; `None` while it runs.
    pub fn failure(&mut self) -> Option<String> {
        let status = self.process.exit_status()?;
        Some(self.process.failure(status))
    }

    /// Returns the bytes on disk that the encoder has not read yet.
    pub fn buffered_bytes(&self) -> u64 {
        self.process.buffered_bytes()
    }

    pub fn into_process(self) -> Process {
        self.process
    }
}

/// Container whose codecs a broadcast uses: FLV takes the same ones as MP4.
pub const BROADCAST_CONTAINER: Container = Container::Mp4;

/// Composition media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Media {
    pub has_video: bool,
    pub has_audio: bool,
}

impl Media {
    /// Returns the video's and the audio's track number in the stream to the encoder.
    pub const fn track_numbers(self) -> (u8, u8) {
        (1, if self.has_video { 2 } else { 1 })
    }

    /// Returns the tracks for the stream to the encoder.
    pub fn tracks(self, encoding: &EgressConfig) -> Vec<MatroskaTrack> {
        let EgressConfig {
            width,
            height,
            frame_rate,
            ..
        } = *encoding;
        let video = MatroskaTrackKind::RawVideo {
            width,
            height,
            rate: frame_rate,
        };
        let kinds = [
            (self.has_video, video),
            (self.has_audio, MatroskaTrackKind::Pcm),
        ];
        kinds
            .into_iter()
            .filter(|(is_there, _)| *is_there)
            .map(|(_, kind)| MatroskaTrack {
                kind,
                private: vec![],
            })
            .collect()
    }
}

/// Returns ffmpeg's options for encoding.
///
/// # Errors
/// Returns the codec for which this ffmpeg has no encoder.
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
        // B-frames would delay a broadcast.
        "libx264" => arguments.extend(["-preset", &encoding.preset, "-bf", "0"]),
        // libvpx's default deadline is far slower than real time.
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
        // Two seconds for the rate control's buffer.
        kbps(rate * 2),
    ]);
    // A key frame every two seconds: an MP4 file is written in fragments that start at key frames,
    // so a crash loses no more.
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
