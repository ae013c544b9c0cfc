//! A track of a composition: from its packets to pictures or samples.

use std::time::{Duration, Instant};

use conclave_model::ParticipantSid;
use conclave_sfu::{Codec, RecordedPacket};

use crate::codec::Frame;
use crate::composite::Shown;
use crate::decode::{AudioDecoder, Places, VideoDecoder};
use crate::ffmpeg::Ffmpeg;
use crate::rtp::{PublisherClock, TrackReader};

/// The least time between two requests for a key frame.
const REQUEST_INTERVAL: Duration = Duration::from_millis(500);

/// A track of a composition.
pub struct TrackInput {
    /// The session that published the track.
    pub publisher: ParticipantSid,
    codec: Codec,
    /// The tile of a video in pixels; `None` if it is not shown.
    pub tile: Option<(u32, u32)>,
    reader: TrackReader,
    audio: Option<AudioDecoder>,
    video: Option<VideoDecoder>,
    /// The decoder for another size of the tile, until it has a picture.
    next: Option<VideoDecoder>,
    /// The picture that is shown.
    picture: Option<Shown>,
    requested: Option<Instant>,
    /// Whether there was no place for a decoder.
    is_left_out: bool,
    /// Frames that were lost because a decoder was too slow, since the last look.
    dropped: usize,
}

/// With what decoders are started.
pub struct Means<'a> {
    pub ffmpeg: &'a Ffmpeg,
    /// A decoder takes a place of each.
    pub places: &'a [&'a Places],
}

impl TrackInput {
    pub fn new(publisher: ParticipantSid, codec: Codec, start: Instant) -> Self {
        Self {
            publisher,
            codec,
            tile: None,
            reader: TrackReader::new(codec, start),
            audio: None,
            video: None,
            next: None,
            picture: None,
            requested: None,
            is_left_out: false,
            dropped: 0,
        }
    }

    /// Takes a packet. A decoder that has died is replaced.
    pub fn push(
        &mut self,
        packet: RecordedPacket,
        clock: &mut PublisherClock,
        means: &Means<'_>,
    ) -> Result<(), String> {
        if packet.codec != self.codec || self.is_left_out {
            return Ok(());
        }
        let arrived = packet.arrived;
        for frame in self.reader.push(packet, clock) {
            if self.codec == Codec::Opus {
                self.hear(&frame, arrived, means)?;
            } else if let Some(size) = self.tile {
                self.see(&frame, arrived, size, means)?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, packet: &Frame, arrived: Instant, means: &Means<'_>) -> Result<(), String> {
        if self.audio.is_none() {
            let places = Places::take_all(means.places);
            self.is_left_out = places.is_none();
            self.audio = places
                .map(|places| AudioDecoder::start(places, arrived))
                .transpose()?;
        }
        self.audio.take_if(|decoder| !decoder.push(packet, arrived));
        Ok(())
    }

    fn see(
        &mut self,
        frame: &Frame,
        arrived: Instant,
        size: (u32, u32),
        means: &Means<'_>,
    ) -> Result<(), String> {
        if frame.is_key && self.newest().is_none_or(|decoder| decoder.size != size) {
            // Without a place for a second decoder, the pictures of the first one are shown in the new size.
            match Places::take_all(means.places) {
                Some(places) => {
                    let started =
                        VideoDecoder::start(means.ffmpeg, (self.codec, frame), size, places)?;
                    if self.video.is_some() {
                        self.next = started;
                    } else {
                        self.video = started;
                    }
                }
                None => self.is_left_out = self.video.is_none(),
            }
        }
        let stopped = self.video.take_if(|decoder| !decoder.push(frame, arrived));
        self.dropped += stopped.map_or(0, |decoder| decoder.pending());
        self.next.take_if(|decoder| !decoder.push(frame, arrived));
        Ok(())
    }

    /// Returns whether there was no place for a decoder, or pictures were too large, since the last call.
    pub fn take_left_out(&mut self) -> bool {
        let is_too_large = self.reader.take_too_large();
        std::mem::take(&mut self.is_left_out) || is_too_large
    }

    /// Returns the frames that were lost because a decoder was too slow, since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped) as u64
    }

    /// Returns when the next frame was captured whose picture is still to come, if its decoder makes progress.
    pub fn awaited(&mut self, now: Instant) -> Option<Duration> {
        self.video.as_mut().or(self.next.as_mut())?.awaited(now)
    }

    fn newest(&self) -> Option<&VideoDecoder> {
        self.next.as_ref().or(self.video.as_ref())
    }

    /// Returns the decoder of a video.
    #[cfg(test)]
    pub const fn decoder(&self) -> Option<&VideoDecoder> {
        self.video.as_ref()
    }

    /// Sets the tile of a video; `None` if it is not shown.
    pub fn set_tile(&mut self, tile: Option<(u32, u32)>) {
        if tile.is_none() {
            (self.video, self.next, self.picture) = (None, None, None);
        }
        self.tile = tile;
    }

    /// Returns the picture that is shown at a moment; `None` before the first one.
    pub fn picture(&mut self, at: Duration) -> Option<&Shown> {
        let next = self
            .next
            .as_ref()
            .and_then(|decoder| decoder.take_picture(at));
        if next.is_some() {
            self.video = self.next.take();
        }
        let newer = next.or_else(|| {
            self.video
                .as_ref()
                .and_then(|decoder| decoder.take_picture(at))
        });
        if newer.is_some() {
            self.picture = newer;
        }
        self.picture.as_ref()
    }

    /// Forgets the picture that is shown: the video was muted.
    pub fn forget_picture(&mut self) {
        self.picture = None;
    }

    /// Adds the samples of a chunk to a sum; returns how loud they are.
    pub fn mix(&mut self, chunk: u64, sum: &mut [i32]) -> u64 {
        self.audio
            .as_mut()
            .map_or(0, |decoder| decoder.mix(chunk, sum))
    }

    /// Forgets decoders that have died, and those of sound that have nothing to do. Returns whether a key frame has to be requested now.
    pub fn needs_key_frame(&mut self, now: Instant) -> bool {
        self.audio.take_if(|decoder| decoder.is_idle(now));
        self.video.take_if(VideoDecoder::has_ended);
        self.next.take_if(VideoDecoder::has_ended);
        let Some(size) = self
            .tile
            .filter(|_| self.codec != Codec::Opus && !self.is_left_out)
        else {
            return false;
        };
        let lacks_decoder = self.newest().is_none_or(|decoder| decoder.size != size);
        let is_early = self.requested.is_some_and(|at| now < at + REQUEST_INTERVAL);
        if is_early || !(lacks_decoder || self.reader.needs_key_frame()) {
            return false;
        }
        self.requested = Some(now);
        true
    }

    /// Returns the frames that were lost on the way.
    pub const fn lost(&self) -> u64 {
        self.reader.lost
    }
}
