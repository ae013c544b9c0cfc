//! Decoding one track, from packets to frames or samples.

use std::time::{Duration, Instant};

use conclave_model::ParticipantSid;
use conclave_sfu::{Codec, RecordedPacket};

use crate::codec::EncodedFrame;
use crate::composite::TileFrame;
use crate::decode::{AudioDecoder, Slots, VideoDecoder};
use crate::ffmpeg::Ffmpeg;
use crate::rtp::{PublisherClock, TrackReader};

// The browser needs a round trip and an encoder's delay to answer a request.
const REQUEST_INTERVAL: Duration = Duration::from_millis(500);

/// One track's reader and decoders.
pub struct TrackDecoder {
    /// Publisher's session.
    pub publisher: ParticipantSid,
    codec: Codec,
    /// Tile size in pixels; `None` while it is not shown.
    pub tile: Option<(u32, u32)>,
    reader: TrackReader,
    audio: Option<AudioDecoder>,
    video: Option<VideoDecoder>,
    /// Decoder for a new tile size, until it outputs its first frame.
    replacement: Option<VideoDecoder>,
    /// Frame that is currently shown.
    frame: Option<TileFrame>,
    last_request: Option<Instant>,
    /// Whether no decoder slot was free.
    is_left_out: bool,
    /// Frames lost since the last check because a decoder was too slow.
    dropped: usize,
}

/// Program and slots for new decoders.
pub struct DecoderResources<'a> {
    pub ffmpeg: &'a Ffmpeg,
    /// Slot counters; a decoder takes a slot from each.
    pub slots: &'a [&'a Slots],
}

impl TrackDecoder {
    pub fn new(publisher: ParticipantSid, codec: Codec, start: Instant) -> Self {
        Self {
            publisher,
            codec,
            tile: None,
            reader: TrackReader::new(codec, start),
            audio: None,
            video: None,
            replacement: None,
            frame: None,
            last_request: None,
            is_left_out: false,
            dropped: 0,
        }
    }

    /// Processes a packet. A decoder that died is replaced.
    pub fn push(
        &mut self,
        packet: RecordedPacket,
        clock: &mut PublisherClock,
        resources: &DecoderResources<'_>,
    ) -> Result<(), String> {
        // A track without a slot tries again after the next check, once per second, and not for each
        // packet.
        if packet.codec != self.codec || self.is_left_out {
            return Ok(());
        }
        let arrived = packet.arrived;
        for frame in self.reader.push(packet, clock) {
            if self.codec == Codec::Opus {
                self.decode_audio(&frame, arrived, resources)?;
            } else if let Some(size) = self.tile {
                self.decode_video(&frame, arrived, size, resources)?;
            }
        }
        Ok(())
    }

    fn decode_audio(
        &mut self,
        packet: &EncodedFrame,
        arrived: Instant,
        resources: &DecoderResources<'_>,
    ) -> Result<(), String> {
        if self.audio.is_none() {
            let slots = Slots::take_all(resources.slots);
            self.is_left_out = slots.is_none();
            self.audio = slots
                .map(|slots| AudioDecoder::start(slots, arrived))
                .transpose()?;
        }
        self.audio.take_if(|decoder| !decoder.push(packet, arrived));
        Ok(())
    }

    fn decode_video(
        &mut self,
        frame: &EncodedFrame,
        arrived: Instant,
        size: (u32, u32),
        resources: &DecoderResources<'_>,
    ) -> Result<(), String> {
        // ffmpeg scales to a fixed size, so a new tile size needs a new process, which can only
        // start at a key frame.
        if frame.is_key && self.newest().is_none_or(|decoder| decoder.size != size) {
            // If there is no slot for a second decoder, the first one's frames are stretched to the
            // new size.
            match Slots::take_all(resources.slots) {
                Some(slots) => {
                    let started =
                        VideoDecoder::start(resources.ffmpeg, (self.codec, frame), size, slots)?;
                    if self.video.is_some() {
                        self.replacement = started;
                    } else {
                        self.video = started;
                    }
                }
                None => self.is_left_out = self.video.is_none(),
            }
        }
        let stopped = self.video.take_if(|decoder| !decoder.push(frame, arrived));
        self.dropped += stopped.map_or(0, |decoder| decoder.pending());
        self.replacement
            .take_if(|decoder| !decoder.push(frame, arrived));
        Ok(())
    }

    /// Returns whether, since the last call, no slot was free or frames were too large.
    pub fn take_left_out(&mut self) -> bool {
        let is_too_large = self.reader.take_too_large();
        std::mem::take(&mut self.is_left_out) || is_too_large
    }

    /// Returns the frames lost since the last call because a decoder was too slow.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped) as u64
    }

    /// Returns the oldest capture time in the decoder; `None` if it is empty or has stalled.
    pub fn next_pending(&mut self, now: Instant) -> Option<Duration> {
        self.video
            .as_mut()
            .or(self.replacement.as_mut())?
            .next_pending(now)
    }

    fn newest(&self) -> Option<&VideoDecoder> {
        self.replacement.as_ref().or(self.video.as_ref())
    }

    #[cfg(test)]
    pub const fn decoder(&self) -> Option<&VideoDecoder> {
        self.video.as_ref()
    }

    /// Sets the video's tile size; `None` hides the video and stops its decoders.
    pub fn set_tile(&mut self, tile: Option<(u32, u32)>) {
        if tile.is_none() {
            (self.video, self.replacement, self.frame) = (None, None, None);
        }
        self.tile = tile;
    }

    /// Returns the frame to show at a moment; `None` before the first one.
    pub fn frame_at(&mut self, at: Duration) -> Option<&TileFrame> {
        let replacement = self
            .replacement
            .as_ref()
            .and_then(|decoder| decoder.take_frame(at));
        // The old decoder works until the new one has a frame, so that the tile never goes black.
        if replacement.is_some() {
            self.video = self.replacement.take();
        }
        let newer = replacement.or_else(|| {
            self.video
                .as_ref()
                .and_then(|decoder| decoder.take_frame(at))
        });
        if newer.is_some() {
            self.frame = newer;
        }
        self.frame.as_ref()
    }

    /// Clears the shown frame, because the video was muted.
    pub fn clear_frame(&mut self) {
        self.frame = None;
    }

    /// Adds a chunk's samples to `sum`, and returns their mean square.
    pub fn mix(&mut self, chunk: u64, sum: &mut [i32]) -> u64 {
        self.audio
            .as_mut()
            .map_or(0, |decoder| decoder.mix(chunk, sum))
    }

    /// Drops decoders that died or, for audio, are idle. Returns whether a key frame must be
    /// requested now.
    pub fn needs_key_frame(&mut self, now: Instant) -> bool {
        self.audio.take_if(|decoder| decoder.is_idle(now));
        self.video.take_if(VideoDecoder::has_ended);
        self.replacement.take_if(VideoDecoder::has_ended);
        let Some(size) = self
            .tile
            .filter(|_| self.codec != Codec::Opus && !self.is_left_out)
        else {
            return false;
        };
        // A new tile size needs a key frame as much as a loss does.
        let lacks_decoder = self.newest().is_none_or(|decoder| decoder.size != size);
        let is_early = self
            .last_request
            .is_some_and(|at| now < at + REQUEST_INTERVAL);
        if is_early || !(lacks_decoder || self.reader.needs_key_frame()) {
            return false;
        }
        self.last_request = Some(now);
        true
    }

    /// Returns the frames lost on the network.
    pub const fn lost(&self) -> u64 {
        self.reader.lost
    }
}
