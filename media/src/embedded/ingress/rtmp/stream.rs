//! An RTMP stream's media, without I/O: H.264 is forwarded unchanged, and media that receivers cannot play is
//! transcoded.

use std::time::Instant;

use conclave_sfu::SourcePacket;

use crate::embedded::ingress::transcoding::flv::{self, AudioTag, AvcParameters, Medium, VideoTag};
use crate::embedded::ingress::transcoding::packets::{KEY_SLICE, unit_type, video_packets};
use crate::embedded::ingress::transcoding::timeline::{MediaTime, Timeline};

/// Frames to inspect before video is forwarded: encoders start with a key frame, and the first B-frame follows soon.
const FRAMES_TO_INSPECT: usize = 8;
/// Profile without B-frames.
const BASELINE: u8 = 66;

/// Handling of a message.
#[derive(Debug)]
pub enum MediaAction {
    /// Send an H.264 frame to the receivers.
    Send(Vec<SourcePacket>),
    /// Send a message with its time to its medium's transcoder.
    Transcode(Medium, MediaTime, Vec<u8>),
}

/// Reason for which receivers cannot play a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unplayable {
    /// H.264 with B-frames, whose sending order differs from their display order.
    BFrames,
    /// Another codec than H.264.
    Codec,
}

/// An encoder's video message.
#[derive(Debug, Clone)]
struct VideoMessage {
    time: MediaTime,
    body: Vec<u8>,
}

/// A video's path to the receivers.
#[derive(Debug)]
enum VideoPath {
    /// Undecided. Buffers the messages since the first key frame.
    Unknown(Vec<VideoMessage>),
    /// Unchanged.
    Forwarded,
    /// Transcoded from the next key frame on, since the first B-frame came late.
    AwaitsKeyFrame,
    /// Transcoded.
    Transcoded,
}

/// One stream's media.
#[derive(Debug)]
pub struct MediaStream {
    timeline: Timeline,
    parameters: Option<AvcParameters>,
    /// Message with the codec parameters, for a transcoder that starts later.
    video_header: Option<VideoMessage>,
    video: VideoPath,
    unplayable: Option<Unplayable>,
}

impl MediaStream {
    /// Creates a stream without messages.
    pub const fn new() -> Self {
        Self {
            timeline: Timeline::new(),
            parameters: None,
            video_header: None,
            video: VideoPath::Unknown(Vec::new()),
            unplayable: None,
        }
    }

    /// Transcodes all video, even if receivers could play it, for example because it has few key frames.
    pub fn transcode_video(&mut self) {
        self.video = VideoPath::Transcoded;
    }

    /// Returns why the video must be transcoded; `None` if it need not be.
    pub fn unplayable(&self) -> Option<Unplayable> {
        self.unplayable
    }

    /// Returns whether the stream has video.
    pub const fn has_video(&self) -> bool {
        self.video_header.is_some() || self.unplayable.is_some()
    }

    /// Returns the stream's time line.
    pub fn timeline(&mut self) -> &mut Timeline {
        &mut self.timeline
    }

    pub fn audio(&mut self, timestamp: u32, body: Vec<u8>, now: Instant) -> Vec<MediaAction> {
        let time = self.timeline.message(timestamp, now);
        // Always transcoded: WebRTC receivers do not decode AAC.
        match flv::read_audio(&body) {
            Some(AudioTag::Parameters | AudioTag::Frame) => {
                vec![MediaAction::Transcode(Medium::Audio, time, body)]
            }
            None => Vec::new(),
        }
    }

    pub fn video(&mut self, timestamp: u32, body: Vec<u8>, now: Instant) -> Vec<MediaAction> {
        let message = VideoMessage {
            time: self.timeline.message(timestamp, now),
            body,
        };
        match flv::read_video(&message.body) {
            Some(VideoTag::Parameters(parameters)) => {
                self.parameters = Some(parameters);
                self.video_header = Some(message.clone());
                // A running transcoder needs changed parameters. Forwarded key frames contain them.
                if matches!(self.video, VideoPath::Transcoded) {
                    vec![message.transcode()]
                } else {
                    Vec::new()
                }
            }
            Some(VideoTag::Frame { units, .. }) => {
                // Without parameters, not even its units' lengths are known.
                let Some(parameters) = &self.parameters else {
                    return Vec::new();
                };
                let kind = FrameKind::new(units, parameters.length_size);
                self.frame(kind, message)
            }
            Some(VideoTag::OtherCodec(_)) => {
                // From the first message on: the transcoder itself waits for an entry point.
                self.unplayable = Some(Unplayable::Codec);
                self.video = VideoPath::Transcoded;
                vec![message.transcode()]
            }
            Some(VideoTag::Nothing) | None => Vec::new(),
        }
    }

    fn frame(&mut self, kind: FrameKind, message: VideoMessage) -> Vec<MediaAction> {
        if kind.has_b_slice && self.unplayable.is_none() {
            self.unplayable = Some(Unplayable::BFrames);
            if let VideoPath::Forwarded = self.video {
                self.video = VideoPath::AwaitsKeyFrame;
            }
        }
        match &mut self.video {
            VideoPath::Unknown(seen) => {
                // Receivers and decoders can only start with a key frame.
                if seen.is_empty() && !kind.is_key {
                    return Vec::new();
                }
                seen.push(message);
                self.decide()
            }
            VideoPath::Forwarded => vec![self.send(&message)],
            VideoPath::AwaitsKeyFrame if !kind.is_key => Vec::new(),
            // ffmpeg starts with the parameters. The frames since the first B-frame are lost.
            VideoPath::AwaitsKeyFrame => {
                self.video = VideoPath::Transcoded;
                self.video_header
                    .clone()
                    .into_iter()
                    .chain([message])
                    .map(VideoMessage::transcode)
                    .collect()
            }
            VideoPath::Transcoded => vec![message.transcode()],
        }
    }

    /// Decides about the video, once enough frames were inspected.
    fn decide(&mut self) -> Vec<MediaAction> {
        let VideoPath::Unknown(seen) = &mut self.video else {
            return Vec::new();
        };
        // The baseline profile needs no further frames, which saves their delay.
        let is_decided = self.unplayable.is_some()
            || seen.len() >= FRAMES_TO_INSPECT
            || self
                .parameters
                .as_ref()
                .is_some_and(AvcParameters::are_baseline);
        if !is_decided {
            return Vec::new();
        }
        let seen = std::mem::take(seen);
        if self.unplayable.is_some() {
            self.video = VideoPath::Transcoded;
            self.video_header
                .clone()
                // All of them, so that the stream starts with its first key frame.
                .into_iter()
                .chain(seen)
                .map(VideoMessage::transcode)
                .collect()
        } else {
            self.video = VideoPath::Forwarded;
            seen.iter().map(|message| self.send(message)).collect()
        }
    }

    fn send(&self, VideoMessage { time, body }: &VideoMessage) -> MediaAction {
        MediaAction::Send(
            self.parameters
                .as_ref()
                .map_or_else(Vec::new, |parameters| {
                    video_packets(parameters, *time, body)
                }),
        )
    }
}

impl VideoMessage {
    fn transcode(self) -> MediaAction {
        MediaAction::Transcode(Medium::Video, self.time, self.body)
    }
}

/// A frame's properties, according to its NAL units.
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
    /// Returns whether the profile excludes B-frames.
    fn are_baseline(&self) -> bool {
        self.sets.first().and_then(|sequence| sequence.get(1)) == Some(&BASELINE)
    }
}

#[cfg(test)]
mod tests {
    //! Streams with H.264 and other codecs.

    use super::*;

    /// A decoder configuration record with one parameter set of each kind.
    fn parameters(profile: u8) -> Vec<u8> {
        let record = [
            1, profile, 0xc0, 0x1f, 0xff, 0xe1, 0, 3, 0x67, profile, 9, 1, 0, 2, 0x68, 8,
        ];
        [&[0x17, 0, 0, 0, 0][..], &record].concat()
    }

    /// A frame with one NAL unit.
    fn frame(unit: &[u8]) -> Vec<u8> {
        let length = u32::try_from(unit.len()).unwrap().to_be_bytes();
        [&[0x27, 1, 0, 0, 0][..], &length, unit].concat()
    }

    // NAL units: an IDR slice, and slices with the types P and B.
    const KEY: [u8; 3] = [0x65, 0x88, 1];
    const P: [u8; 2] = [0x41, 0b1110_0000];
    const B: [u8; 2] = [0x01, 0b1010_0000];
    const MAIN: u8 = 77;

    struct Encoder {
        stream: MediaStream,
        time: u32,
        now: Instant,
    }

    impl Encoder {
        fn new() -> Self {
            Self {
                stream: MediaStream::new(),
                time: 0,
                now: Instant::now(),
            }
        }

        fn video(&mut self, body: Vec<u8>) -> Vec<MediaAction> {
            self.time += 40;
            self.now += std::time::Duration::from_millis(40);
            self.stream.video(self.time, body, self.now)
        }

        /// Sends frames, and returns the numbers of forwarded and transcoded messages.
        fn frames(&mut self, units: &[&[u8]]) -> (usize, usize) {
            let actions: Vec<_> = units
                .iter()
                .flat_map(|unit| self.video(frame(unit)))
                .collect();
            let sent = actions
                .iter()
                .filter(|action| matches!(action, MediaAction::Send(_)))
                .count();
            (sent, actions.len() - sent)
        }
    }

    #[test]
    fn a_baseline_stream_passes_from_its_first_key_frame_on() {
        let mut encoder = Encoder::new();
        assert!(
            encoder.video(frame(&KEY)).is_empty(),
            "a frame without parameters cannot be decoded"
        );
        encoder.video(parameters(BASELINE));
        assert!(
            encoder.video(frame(&P)).is_empty(),
            "a stream cannot start with a delta frame"
        );
        let actions = encoder.video(frame(&KEY));
        let [MediaAction::Send(packets)] = actions.as_slice() else {
            panic!("{actions:?}")
        };
        let [packet] = packets.as_slice() else {
            panic!("{packets:?}")
        };
        let with_parameters = [
            0x78, 0, 3, 0x67, BASELINE, 9, 0, 2, 0x68, 8, 0, 3, 0x65, 0x88, 1,
        ];
        assert_eq!(
            (&*packet.payload, packet.is_last),
            (&with_parameters[..], true)
        );
        let later = encoder.video(frame(&P));
        let [MediaAction::Send(next)] = later.as_slice() else {
            panic!("{later:?}")
        };
        assert_eq!(next[0].timestamp - packet.timestamp, 3_600);
        assert_eq!(*next[0].payload, P);
    }

    #[test]
    fn another_profile_is_forwarded_once_some_frames_were_no_b_frames() {
        let mut encoder = Encoder::new();
        encoder.video(parameters(MAIN));
        assert_eq!(encoder.frames(&[&KEY, &P, &P, &P, &P, &P, &P]), (0, 0));
        assert_eq!(encoder.frames(&[&P]), (FRAMES_TO_INSPECT, 0));
        assert_eq!(encoder.frames(&[&P, &KEY]), (2, 0));
        assert_eq!(encoder.stream.unplayable(), None);
    }

    #[test]
    fn a_stream_with_b_frames_is_transcoded_from_its_first_key_frame_on() {
        let mut encoder = Encoder::new();
        encoder.video(parameters(MAIN));
        // The parameters, and the buffered frames.
        assert_eq!(encoder.frames(&[&KEY, &P, &B]), (0, 4));
        assert_eq!(encoder.frames(&[&P]), (0, 1));
        assert_eq!(encoder.stream.unplayable(), Some(Unplayable::BFrames));
    }

    #[test]
    fn late_b_frames_are_transcoded_from_the_next_key_frame_on() {
        let mut encoder = Encoder::new();
        encoder.video(parameters(MAIN));
        encoder.frames(&[&KEY, &P, &P, &P, &P, &P, &P, &P]);
        assert_eq!(encoder.frames(&[&B, &P]), (0, 0));
        assert_eq!(encoder.frames(&[&KEY, &B]), (0, 3));
    }

    #[test]
    fn another_codec_is_transcoded_and_so_is_audio() {
        let mut encoder = Encoder::new();
        let actions = encoder.video(vec![0x12, 1, 2]);
        assert!(matches!(
            actions.as_slice(),
            [MediaAction::Transcode(Medium::Video, ..)]
        ));
        assert_eq!(encoder.stream.unplayable(), Some(Unplayable::Codec));
        let actions = encoder.stream.audio(0, vec![0xaf, 1, 9], encoder.now);
        assert!(matches!(
            actions.as_slice(),
            [MediaAction::Transcode(Medium::Audio, ..)]
        ));
        assert!(encoder.stream.audio(0, Vec::new(), encoder.now).is_empty());
        assert!(
            encoder.video(vec![0x17, 0]).is_empty(),
            "a message that is cut off"
        );
    }
}
