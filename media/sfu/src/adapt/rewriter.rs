//! All numbers of a stream to one receiver.

use std::time::Instant;

use str0m::rtp::Vp8Patch;

use super::frame_numbers::FrameNumbers;
use super::numbers::SequenceNumbers;
use super::packet::MediaPacket;
use super::picture_ids::PictureIds;
use super::timestamp::Timestamps;
use super::vp8::picture_id_mask;

/// Rewrites the packets of changing sources into one stream.
#[derive(Debug, Clone)]
pub struct Rewriter {
    sequence: SequenceNumbers,
    timestamps: Timestamps,
    pictures: PictureIds,
    frames: FrameNumbers,
}

/// The numbers of a packet in the stream to one receiver.
#[derive(Debug)]
pub struct Rewritten {
    /// The extended sequence number.
    pub sequence: u64,
    /// The RTP timestamp.
    pub timestamp: u32,
    /// The change of the VP8 payload descriptor, if any.
    pub vp8_patch: Option<Vp8Patch>,
    /// The number of the frame for the dependency descriptor, if the packet has one.
    pub frame_number: Option<u16>,
}

impl Rewriter {
    /// Starts a stream at random numbers. The first sequence number is low, so that a receiver that misses the first packets
    /// still counts the rollovers correctly.
    pub fn new() -> Self {
        Self {
            sequence: SequenceNumbers::new(fastrand::u16(1..1 << 14)),
            timestamps: Timestamps::new(fastrand::u32(..)),
            pictures: PictureIds::default(),
            frames: FrameNumbers::default(),
        }
    }

    /// Continues the stream with another source, or with the same one after a pause, beginning with this packet.
    pub fn switch(&mut self, packet: &MediaPacket) {
        self.sequence.switch(packet.sequence);
        self.timestamps
            .switch(packet.timestamp, packet.arrived, packet.clock_rate);
        if let Some(descriptor) = &packet.vp8 {
            self.pictures.switch(descriptor);
        }
        if let Some(number) = packet.frame_number {
            self.frames.switch(number);
        }
    }

    /// Returns the numbers of a packet that is of no source, and is sent now.
    pub fn insert(&mut self, now: Instant, clock_rate: u32) -> Rewritten {
        Rewritten {
            sequence: self.sequence.insert(),
            timestamp: self.timestamps.insert(now, clock_rate),
            vp8_patch: None,
            frame_number: None,
        }
    }

    /// Notes that a packet of the source is not sent, of which the receiver is not to notice anything. Returns the numbers of an empty packet
    /// that it has to get if that is too late, so that it does not wait for this one.
    pub fn skip(&mut self, packet: &MediaPacket) -> Option<Rewritten> {
        if let Some(descriptor) = &packet.vp8 {
            self.pictures
                .skip(descriptor, picture_id_mask(&packet.payload));
        }
        let sequence = self.sequence.skip(packet.sequence)?;
        let timestamp = self.timestamps.rewrite(packet.timestamp, packet.arrived);
        Some(Rewritten {
            sequence,
            timestamp,
            vp8_patch: None,
            frame_number: None,
        })
    }

    /// Returns the numbers of a packet of the source; `None` for a late packet from before the last switch.
    pub fn rewrite(&mut self, packet: &MediaPacket) -> Option<Rewritten> {
        Some(Rewritten {
            sequence: self.sequence.rewrite(packet.sequence)?,
            timestamp: self.timestamps.rewrite(packet.timestamp, packet.arrived),
            vp8_patch: packet.vp8.as_ref().and_then(|descriptor| {
                self.pictures
                    .rewrite(descriptor, picture_id_mask(&packet.payload))
                    .patch(descriptor)
            }),
            frame_number: packet
                .frame_number
                .map(|number| self.frames.rewrite(number)),
        })
    }
}
