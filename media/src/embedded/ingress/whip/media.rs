//! Media from an encoder whose video is transcoded: audio is forwarded unchanged, and video frames go through ffmpeg.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_egress::{EncodedFrame, PublisherClock, TrackReader, VideoStream};
use conclave_model::{ProjectId, TrackSid};
use conclave_sfu::{Codec, RecordedPacket, SourcePacket};

use crate::embedded::ingress::transcoding::flv::Medium;
use crate::embedded::ingress::transcoding::packets::VideoPackets;
use crate::embedded::ingress::transcoding::timeline::FrameTimeline;
use crate::embedded::ingress::transcoding::transcoder::Transcoded;
use crate::embedded::ingress::transcoding::{
    FrameRole, InputContainer, InputOpening, KEY_FRAME_WAIT, Message, TranscodeError, Transcoding,
};
use crate::embedded::plane::core::PlaneCore;

/// Minimum time between two key frame requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(500);
/// Minimum time between two changes of the output size, which restart ffmpeg. Browsers change the size as
/// their bandwidth estimate grows.
const RESIZE_INTERVAL: Duration = Duration::from_secs(2);

/// One encoder's media.
pub(super) struct TranscodedMedia {
    /// The capture time line's start.
    start: Instant,
    /// Estimate of the encoder's clock, which keeps audio and video in sync.
    clock: PublisherClock,
    audio: TrackReader,
    video: Option<VideoInput>,
    transcoding: Transcoding,
    packets: VideoPackets,
}

/// An encoder's video before transcoding.
struct VideoInput {
    track: TrackSid,
    codec: Codec,
    reader: TrackReader,
    timeline: FrameTimeline,
    /// The output's size, and since when.
    size: Option<((u32, u32), Instant)>,
    /// Whether a size change is postponed.
    awaits_resize: bool,
    /// The last key frame request's time.
    requested: Option<Instant>,
}

/// A frame for the transcoder.
struct FrameMessage {
    codec: Codec,
    time: Duration,
    frame: EncodedFrame,
}

impl TranscodedMedia {
    /// Creates the state for an encoder without packets.
    pub fn new(now: Instant) -> Self {
        Self {
            start: now,
            clock: PublisherClock::default(),
            audio: TrackReader::new(Codec::Opus, now),
            video: None,
            transcoding: Transcoding::new(Medium::Video),
            packets: VideoPackets::default(),
        }
    }

    /// Handles a packet. Returns the audio packets to forward.
    ///
    /// # Errors
    /// If the video cannot be transcoded.
    pub async fn push(
        &mut self,
        inner: &Arc<PlaneCore>,
        project: &ProjectId,
        packet: RecordedPacket,
    ) -> Result<Vec<SourcePacket>, TranscodeError> {
        let start = self.start;
        if packet.codec == Codec::Opus {
            // Unchanged, but with capture times from the clock that audio and video share.
            let packets = self.audio.push(packet, &mut self.clock);
            return Ok(packets
                .into_iter()
                .map(|packet| audio_packet(start, packet))
                .collect());
        }
        let video = self
            .video
            .get_or_insert_with(|| VideoInput::new(&packet, start));
        // A process decodes one codec. Packets in another codec are ignored.
        if packet.codec != video.codec {
            return Ok(Vec::new());
        }
        let frames = video.reader.push(packet, &mut self.clock);
        if video.reader.take_too_large() {
            return Err(TranscodeError::too_large());
        }
        for frame in frames {
            // Before the frame is pushed, so that the new process starts with it.
            if video.is_resized(&frame) {
                self.transcoding.restart().await;
            }
            let time = video.timeline.frame(frame.timestamp, start + frame.at);
            let message = FrameMessage {
                codec: video.codec,
                time,
                frame,
            };
            self.transcoding.push(inner, project, &message).await?;
        }
        Ok(Vec::new())
    }

    /// Waits for ffmpeg's next output; pending forever without a process.
    ///
    /// # Errors
    /// If ffmpeg has failed too often.
    pub async fn next(&mut self) -> Result<Transcoded, TranscodeError> {
        self.transcoding.next().await
    }

    /// Returns an output's packets.
    pub fn packets(&mut self, output: &Transcoded) -> Vec<SourcePacket> {
        let (Transcoded::Video(time, body), Some(video)) = (output, &self.video) else {
            return Vec::new();
        };
        self.packets.read(video.timeline.at(*time), body)
    }

    /// Returns the track that needs a key frame request now, if any.
    pub fn awaited_key_frame(&mut self, now: Instant) -> Option<TrackSid> {
        let lacks_entry = self.transcoding.needs_entry();
        let video = self.video.as_mut()?;
        let is_early = video
            .requested
            .is_some_and(|at| now < at + REQUEST_INTERVAL);
        let is_needed =
            // A postponed size needs one as well, since it can only change at a key frame.
            lacks_entry || video.reader.needs_key_frame() || video.may_resize(now);
        // Without the interval, each packet until the key frame arrives would cause a request.
        if is_early || !is_needed {
            return None;
        }
        video.requested = Some(now);
        Some(video.track.clone())
    }
}

impl VideoInput {
    fn new(first: &RecordedPacket, start: Instant) -> Self {
        Self {
            track: first.track.clone(),
            codec: first.codec,
            reader: TrackReader::new(first.codec, start).with_key_frame_timeout(KEY_FRAME_WAIT),
            timeline: FrameTimeline::default(),
            size: None,
            awaits_resize: false,
            requested: None,
        }
    }

    /// Returns whether ffmpeg must restart with this frame because the size has changed: its output keeps the size of
    /// the first frame.
    fn is_resized(&mut self, frame: &EncodedFrame) -> bool {
        // Sizes are known at key frames only, at which the new process can start.
        let Some(size) = frame.dimensions.filter(|_| frame.is_key) else {
            return false;
        };
        let now = Instant::now();
        // The first size needs no restart: the process starts with this frame.
        let Some((before, since)) = self.size else {
            self.size = Some((size, now));
            return false;
        };
        // A size that returns within the interval cancels the change.
        self.awaits_resize = size != before;
        if size == before || now < since + RESIZE_INTERVAL {
            return false;
        }
        (self.size, self.awaits_resize) = (Some((size, now)), false);
        true
    }

    /// Returns whether a postponed size change is due.
    fn may_resize(&self, now: Instant) -> bool {
        let is_due = self
            .size
            .is_some_and(|(_, since)| now >= since + RESIZE_INTERVAL);
        self.awaits_resize && is_due
    }
}

impl Message for FrameMessage {
    fn time(&self) -> Duration {
        self.time
    }

    fn role(&self) -> FrameRole {
        if self.frame.is_key {
            FrameRole::Entry
        } else {
            FrameRole::Other
        }
    }

    fn opening(&self) -> Option<InputOpening> {
        let bytes = VideoStream::header(self.codec, &self.frame)?;
        Some(InputOpening {
            source: InputContainer::Matroska(self.codec),
            bytes,
        })
    }

    fn chunk(&self, since: Duration) -> Option<Vec<u8>> {
        Some(VideoStream::frame(since, &self.frame))
    }
}

/// Returns an audio frame's packet.
fn audio_packet(start: Instant, frame: EncodedFrame) -> SourcePacket {
    SourcePacket {
        timestamp: frame.timestamp,
        captured: start + frame.at,
        payload: frame.data.into(),
        is_last: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn video() -> VideoInput {
        let packet = RecordedPacket {
            track: "TR_1".parse().unwrap(),
            layer: 0,
            codec: Codec::Vp8,
            sequence: 1,
            timestamp: 0,
            is_marked: true,
            is_entry_point: true,
            payload: Arc::default(),
            arrived: Instant::now(),
            report: None,
        };
        VideoInput::new(&packet, packet.arrived)
    }

    fn key_frame(width: u32) -> EncodedFrame {
        EncodedFrame {
            at: Duration::ZERO,
            timestamp: 0,
            is_key: true,
            data: vec![1],
            dimensions: Some((width, 180)),
        }
    }

    #[test]
    fn a_decoder_starts_again_with_a_key_frame_of_another_size_and_not_too_often() {
        let mut video = video();
        assert!(!video.is_resized(&key_frame(320)), "the first size");
        // The interval starts later, so that no delay of this thread is as long.
        let first = Instant::now() + 30 * RESIZE_INTERVAL;
        video.size = Some(((320, 180), first));
        assert!(!video.is_resized(&key_frame(640)), "too early");
        let later = first + RESIZE_INTERVAL;
        assert!(video.may_resize(later) && !video.may_resize(Instant::now()));
        assert!(!video.is_resized(&key_frame(320)));
        assert!(!video.may_resize(later), "it is the size of before");
        let since = Instant::now().checked_sub(RESIZE_INTERVAL).unwrap();
        video.size = Some(((320, 180), since));
        let other = EncodedFrame {
            is_key: false,
            ..key_frame(640)
        };
        assert!(!video.is_resized(&other));
        assert!(video.is_resized(&key_frame(640)));
        assert!(!video.is_resized(&key_frame(640)));
    }
}
