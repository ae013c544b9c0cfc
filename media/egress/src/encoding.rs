//! How composed pictures and mixed sound are encoded.

use crate::ffmpeg::Ffmpeg;
use crate::files::Container;
use crate::matroska::{Track, TrackKind};
use conclave_model::settings::EgressConfig;

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
