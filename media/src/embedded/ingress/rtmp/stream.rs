//! What becomes of the media of an RTMP stream, without I/O: H.264 passes to receivers as it is, and what they cannot play is
//! left to a transcoder.

use std::time::Instant;

use conclave_sfu::SourcePacket;

use crate::embedded::ingress::transcoding::flv::{self, AudioTag, AvcParameters, Medium, VideoTag};
use crate::embedded::ingress::transcoding::packets::{KEY_SLICE, unit_type, video_packets};
use crate::embedded::ingress::transcoding::timeline::{MediaTime, Timeline};

/// Frames that are looked at before a stream passes: encoders begin with a key frame and the first B picture follows soon.
const FRAMES_TO_SEE: usize = 8;
/// The profile without B pictures.
const BASELINE: u8 = 66;

/// What has to be done with a message.
#[derive(Debug)]
pub enum Action {
    /// Send a frame of H.264 to the receivers.
    Send(Vec<SourcePacket>),
    /// Give a message with its time to the transcoder of its medium.
    Transcode(Medium, MediaTime, Vec<u8>),
}

/// What receivers cannot play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unplayable {
    /// H.264 with B pictures, which are sent in another order than they are shown.
    BPictures,
    /// Another codec than H.264.
    Codec,
}

/// A video message of an encoder.
#[derive(Debug, Clone)]
struct VideoMessage {
    time: MediaTime,
    body: Vec<u8>,
}

/// How the video of a stream reaches receivers.
#[derive(Debug)]
enum Video {
    /// It is not known yet. Holds the messages since the first key frame.
    Unknown(Vec<VideoMessage>),
    /// As it is.
    Passes,
    /// By the transcoder, from the next key frame on, since B pictures have begun late.
    AwaitsKeyFrame,
    /// By the transcoder.
    IsTranscoded,
}

/// The media of one stream.
#[derive(Debug)]
pub struct MediaStream {
    timeline: Timeline,
    parameters: Option<AvcParameters>,
    /// The message with the parameters, for a transcoder that is started later.
    video_header: Option<VideoMessage>,
    video: Video,
    unplayable: Option<Unplayable>,
}

impl MediaStream {
    /// Creates a stream that has sent nothing.
    pub const fn new() -> Self {
        Self {
            timeline: Timeline::new(),
            parameters: None,
            video_header: None,
            video: Video::Unknown(Vec::new()),
            unplayable: None,
        }
    }

    /// Leaves all video to the transcoder, also what receivers could play: it comes with few key frames, say.
    pub fn transcode_video(&mut self) {
        self.video = Video::IsTranscoded;
    }

    /// Returns why the video has to be transcoded; `None` if it does not have to.
    pub fn unplayable(&self) -> Option<Unplayable> {
        self.unplayable
    }

    /// Returns whether video has come, so that sound is not all there is.
    pub const fn has_video(&self) -> bool {
        self.video_header.is_some() || self.unplayable.is_some()
    }

    /// Returns the clock of the stream.
    pub fn timeline(&mut self) -> &mut Timeline {
        &mut self.timeline
    }

    /// Handles an audio message.
    pub fn audio(&mut self, timestamp: u32, body: Vec<u8>, now: Instant) -> Vec<Action> {
        let time = self.timeline.message(timestamp, now);
        match flv::read_audio(&body) {
            Some(AudioTag::Parameters | AudioTag::Sound) => {
                vec![Action::Transcode(Medium::Audio, time, body)]
            }
            None => Vec::new(),
        }
    }

    /// Handles a video message.
    pub fn video(&mut self, timestamp: u32, body: Vec<u8>, now: Instant) -> Vec<Action> {
        let message = VideoMessage {
            time: self.timeline.message(timestamp, now),
            body,
        };
        match flv::read_video(&message.body) {
            Some(VideoTag::Parameters(parameters)) => {
                self.parameters = Some(parameters);
                self.video_header = Some(message.clone());
                if matches!(self.video, Video::IsTranscoded) {
                    vec![message.transcode()]
                } else {
                    Vec::new()
                }
            }
            Some(VideoTag::Frame { units, .. }) => {
                let Some(parameters) = &self.parameters else {
                    return Vec::new();
                };
                let kind = FrameKind::new(units, parameters.length_size);
                self.frame(kind, message)
            }
            Some(VideoTag::OtherCodec(_)) => {
                self.unplayable = Some(Unplayable::Codec);
                self.video = Video::IsTranscoded;
                vec![message.transcode()]
            }
            Some(VideoTag::Nothing) | None => Vec::new(),
        }
    }

    fn frame(&mut self, kind: FrameKind, message: VideoMessage) -> Vec<Action> {
        if kind.has_b_slice && self.unplayable.is_none() {
            self.unplayable = Some(Unplayable::BPictures);
            if let Video::Passes = self.video {
                self.video = Video::AwaitsKeyFrame;
            }
        }
        match &mut self.video {
            Video::Unknown(seen) => {
                if seen.is_empty() && !kind.is_key {
                    return Vec::new();
                }
                seen.push(message);
                self.decide()
            }
            Video::Passes => vec![self.send(&message)],
            Video::AwaitsKeyFrame if !kind.is_key => Vec::new(),
            Video::AwaitsKeyFrame => {
                self.video = Video::IsTranscoded;
                self.video_header
                    .clone()
                    .into_iter()
                    .chain([message])
                    .map(VideoMessage::transcode)
                    .collect()
            }
            Video::IsTranscoded => vec![message.transcode()],
        }
    }

    /// Decides how the video is sent, once enough of it has been seen.
    fn decide(&mut self) -> Vec<Action> {
        let Video::Unknown(seen) = &mut self.video else {
            return Vec::new();
        };
        let is_decided = self.unplayable.is_some()
            || seen.len() >= FRAMES_TO_SEE
            || self
                .parameters
                .as_ref()
                .is_some_and(AvcParameters::are_baseline);
        if !is_decided {
            return Vec::new();
        }
        let seen = std::mem::take(seen);
        if self.unplayable.is_some() {
            self.video = Video::IsTranscoded;
            self.video_header
                .clone()
                .into_iter()
                .chain(seen)
                .map(VideoMessage::transcode)
                .collect()
        } else {
            self.video = Video::Passes;
            seen.iter().map(|message| self.send(message)).collect()
        }
    }

    fn send(&self, VideoMessage { time, body }: &VideoMessage) -> Action {
        Action::Send(
            self.parameters
                .as_ref()
                .map_or_else(Vec::new, |parameters| {
                    video_packets(parameters, *time, body)
                }),
        )
    }
}

impl VideoMessage {
    /// Gives the message to a transcoder.
    fn transcode(self) -> Action {
        Action::Transcode(Medium::Video, self.time, self.body)
    }
}

/// What the units of a frame are.
#[derive(Debug, Clone, Copy)]
struct FrameKind {
    is_key: bool,
    has_b_slice: bool,
}

impl FrameKind {
    fn new(units: &[u8], length_size: usize) -> Self {
        let mut kind = Self {
            is_key: false,
            has_b_slice: false,
        };
        for unit in flv::units(units, length_size) {
            kind.is_key |= unit_type(unit) == Some(KEY_SLICE);
            kind.has_b_slice |= flv::is_b_slice(unit);
        }
        kind
    }
}

impl AvcParameters {
    /// Returns whether the profile has no B pictures.
    fn are_baseline(&self) -> bool {
        self.sets.first().and_then(|sequence| sequence.get(1)) == Some(&BASELINE)
    }
}

#[cfg(test)]
mod tests;
