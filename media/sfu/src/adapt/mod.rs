//! Reading and rewriting packets, per codec, so that a receiver sees one unbroken stream whatever its sources are.
//!
//! Everything here is a value without I/O. In reading order:
//!
//! 1. [`MediaPacket`], below: a packet's properties that forwarding depends on, read once for all receivers. Each codec
//!    has a file for its payloads: `vp8`, `vp9`, and `h26x` for H.264 and H.265. AV1 has them in a header extension,
//!    the dependency descriptor (`dependency`), which other codecs may use as well.
//! 2. [`LayerFilter`] (`layers`): the packets that an SVC stream's receiver gets.
//! 3. [`Rewriter`]: the numbers of these packets. Each SSRC that the server sends has one, and never starts again:
//!    SRTP's replay protection discards packets with numbers that restart. It consists of the series in `numbers`, and
//!    of VP8's `PictureID`.

mod dependency;
mod h26x;
mod layers;
mod numbers;
mod rewriter;
mod vp8;
mod vp9;

use std::sync::Arc;
use std::time::Instant;

use str0m::format::detect_av1_keyframe;
use str0m::rtp::{RedDecoder, RtpPacket, Vp8Descriptor};

#[cfg(test)]
pub use dependency::tests::{descriptor_of, independent_descriptor_of};

use crate::codec::Codec;
use dependency::{Dependencies, DependencyReader};
pub use dependency::{DependencyDescriptor, MAX_DESCRIPTOR};
pub use layers::{FrameLayer, LayerFilter, LayerLimit, LayeredPacket, SpatialLayers};
pub use numbers::SequenceNumbers;
pub use rewriter::{Rewriter, Rewritten};
pub use vp9::Vp9Descriptor;
use vp9::Vp9Layers;

/// Received packet with the properties that forwarding depends on, read once for all receivers.
#[derive(Debug, Clone)]
pub struct MediaPacket {
    /// Extended sequence number, which never wraps.
    pub sequence: u64,
    /// RTP timestamp.
    pub timestamp: u32,
    /// Payload without RTP header.
    pub payload: Arc<[u8]>,
    /// Audio without redundancy (RFC 2198), if the packet has any.
    pub primary: Option<Arc<[u8]>>,
    /// Arrival time.
    pub arrived: Instant,
    /// Whether it contains audio.
    pub is_audio: bool,
    /// Timestamp ticks per second.
    pub clock_rate: u32,
    /// VP8 payload descriptor.
    pub vp8: Option<Vp8Descriptor>,
    /// VP9 payload descriptor.
    pub vp9: Option<Vp9Descriptor>,
    /// The frame's layer in the stream, if the packet names it.
    pub layer: Option<FrameLayer>,
    /// Frame number, if receivers get the packet's dependency descriptor.
    pub frame_number: Option<u16>,
    /// Whether a receiver can start with this packet: it starts a key frame, or contains audio.
    pub is_entry_point: bool,
}

impl MediaPacket {
    /// Reads a packet with this codec.
    pub fn new(packet: &RtpPacket, codec: Codec, is_red: bool) -> Self {
        let payload = packet.payload.clone();
        let primary = if is_red {
            primary_block(&payload)
        } else {
            None
        };
        // str0m extends the sequence number by the rollovers that it has seen.
        let read = Self::from_payload(
            codec,
            payload,
            *packet.seq_no,
            packet.header.timestamp,
            packet.timestamp,
        );
        Self { primary, ..read }
    }

    /// Reads a payload with this codec and without redundancy.
    pub fn from_payload(
        codec: Codec,
        payload: Arc<[u8]>,
        sequence: u64,
        timestamp: u32,
        arrived: Instant,
    ) -> Self {
        let descriptor = if codec == Codec::Vp8 {
            Vp8Descriptor::parse(&payload).ok()
        } else {
            None
        };
        let vp9 = if codec == Codec::Vp9 {
            Vp9Descriptor::parse(&payload)
        } else {
            None
        };
        Self {
            sequence,
            timestamp,
            arrived,
            is_audio: codec == Codec::Opus,
            clock_rate: codec.clock_rate(),
            is_entry_point: match codec {
                Codec::Opus => true,
                Codec::Vp8 => descriptor
                    .as_ref()
                    .is_some_and(|descriptor| descriptor.starts_keyframe(&payload)),
                Codec::Vp9 => vp9.is_some_and(|descriptor| descriptor.starts_key_unit()),
                // These codecs mark key frames only inside the payload.
                Codec::H264 => h26x::starts_h264_key_frame(&payload),
                Codec::H265 => h26x::starts_h265_key_frame(&payload),
                Codec::Av1 => detect_av1_keyframe(&payload),
            },
            vp8: descriptor,
            vp9,
            layer: match codec {
                Codec::Vp8 => vp8::frame_layer(&payload),
                // Replaced by `LayerReader` if the packet has a dependency descriptor.
                _ => vp9.map(|descriptor| descriptor.layer),
            },
            frame_number: None,
            primary: None,
            payload,
        }
    }

    /// Returns whether it is padding, which only probes for bandwidth.
    pub fn is_padding(&self) -> bool {
        self.payload.is_empty()
    }

    /// Adds a dependency descriptor's contents; `None` for an unreadable one.
    pub fn add_dependencies(&mut self, dependencies: Option<Dependencies>) {
        self.layer = dependencies.map(|dependencies| dependencies.layer);
        // A higher spatial layer's key frame refers to the lower ones, so a receiver cannot start with it.
        self.is_entry_point &=
            dependencies.is_none_or(|dependencies| dependencies.layer.spatial == 0);
    }

    /// Returns the packet for [`LayerFilter`]; `None` if it names no layer.
    pub fn layered(&self) -> Option<LayeredPacket> {
        let Self {
            sequence,
            timestamp,
            is_entry_point: is_key,
            ..
        } = *self;
        self.layer.map(|frame| LayeredPacket {
            sequence,
            timestamp,
            frame,
            is_key,
        })
    }
}

/// Returns the newest block in a packet with redundancy; `None` if the packet is malformed.
fn primary_block(payload: &[u8]) -> Option<Arc<[u8]>> {
    let blocks = RedDecoder::decode(payload).ok()?;
    blocks
        .into_iter()
        // The redundant blocks repeat earlier packets.
        .find(|block| block.is_primary)
        .map(|block| block.payload.into())
}

/// Reads the layers of a stream's packets from their dependency descriptors, or from VP9's payload descriptors without
/// them.
#[derive(Debug, Default)]
pub struct LayerReader {
    dependencies: DependencyReader,
    vp9: Vp9Layers,
}

impl LayerReader {
    /// Returns whether, as far as known, a spatial layer's receivers need lower layers only in key temporal units.
    pub fn has_independent_layers(&self) -> bool {
        self.dependencies.has_independent_layers() || self.vp9.has_independent_layers()
    }

    /// Adds the layer to a packet with this dependency descriptor. An unreadable descriptor adds none.
    pub fn read(&mut self, media: &mut MediaPacket, descriptor: Option<&DependencyDescriptor>) {
        if let Some(descriptor) = descriptor {
            media.add_dependencies(self.dependencies.read(&descriptor.0));
        // The dependency descriptor comes first: it names each frame's receivers.
        } else if let Some(descriptor) = &media.vp9 {
            media.layer = Some(self.vp9.read(descriptor));
        }
    }
}
