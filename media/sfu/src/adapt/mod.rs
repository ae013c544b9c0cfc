//! Reading and rewriting packets, per codec: what a receiver sees of several sources is one unbroken stream.
//!
//! Everything here is a value without I/O. In reading order:
//!
//! 1. [`MediaPacket`], below: what the forwarding needs to know of a packet, read once for all receivers. Each codec has a file for its
//!    payloads: `vp8`, `vp9`, and `h26x` for H.264 and H.265. AV1 says it in a header extension, the dependency descriptor
//!    (`dependency`), which other codecs can have as well.
//! 2. [`LayerFilter`] (`layers`): which packets of a stream with layers a receiver gets.
//! 3. [`Rewriter`]: the numbers of the packets that it gets. One belongs to a source (SSRC) that the server sends: SRTP's replay
//!    protection discards packets whose numbers restart. It is made of the series in `numbers`, and of the picture ids of VP8.

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

/// A received packet with what the forwarding needs to know of it, computed once for all receivers.
#[derive(Debug, Clone)]
pub struct MediaPacket {
    /// The sequence number, extended so that it never wraps.
    pub sequence: u64,
    /// The RTP timestamp.
    pub timestamp: u32,
    /// The payload, without RTP header.
    pub payload: Arc<[u8]>,
    /// The sound without the redundancy around it (RFC 2198), if the packet has any.
    pub primary: Option<Arc<[u8]>>,
    /// When the packet arrived.
    pub arrived: Instant,
    /// Whether it is sound.
    pub is_audio: bool,
    /// Ticks of the timestamp per second.
    pub clock_rate: u32,
    /// The payload descriptor, if the codec is VP8.
    pub vp8: Option<Vp8Descriptor>,
    /// The payload descriptor, if the codec is VP9.
    pub vp9: Option<Vp9Descriptor>,
    /// The layer of its frame in the stream, if the packet names it.
    pub layer: Option<FrameLayer>,
    /// The number of its frame, if receivers get its dependency descriptor.
    pub frame_number: Option<u16>,
    /// Whether a receiver can start with this packet: it begins a key frame, or is audio.
    pub is_entry_point: bool,
}

impl MediaPacket {
    /// Reads what the forwarding needs from a packet of this codec.
    pub fn new(packet: &RtpPacket, codec: Codec, is_red: bool) -> Self {
        let payload = packet.payload.clone();
        let primary = if is_red {
            primary_block(&payload)
        } else {
            None
        };
        let read = Self::from_payload(
            codec,
            payload,
            *packet.seq_no,
            packet.header.timestamp,
            packet.timestamp,
        );
        Self { primary, ..read }
    }

    /// Reads what the forwarding needs from a payload of this codec without redundancy.
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
                Codec::Vp9 => vp9.is_some_and(|descriptor| descriptor.starts_key_picture()),
                Codec::H264 => h26x::starts_h264_key_frame(&payload),
                Codec::H265 => h26x::starts_h265_key_frame(&payload),
                Codec::Av1 => detect_av1_keyframe(&payload),
            },
            vp8: descriptor,
            vp9,
            layer: match codec {
                Codec::Vp8 => vp8::frame_layer(&payload),
                _ => vp9.map(|descriptor| descriptor.layer),
            },
            frame_number: None,
            primary: None,
            payload,
        }
    }

    /// Returns whether it only tries what the network carries.
    pub fn is_padding(&self) -> bool {
        self.payload.is_empty()
    }

    /// Adds what a dependency descriptor says: `None` for one that cannot be read.
    pub fn add_dependencies(&mut self, dependencies: Option<Dependencies>) {
        self.layer = dependencies.map(|dependencies| dependencies.layer);
        self.is_entry_point &=
            dependencies.is_none_or(|dependencies| dependencies.layer.spatial == 0);
    }

    /// Returns the packet as one of a stream with layers; `None` if it names no layer.
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

/// Returns the newest block of a packet with redundancy; `None` if the packet is malformed.
fn primary_block(payload: &[u8]) -> Option<Arc<[u8]>> {
    let blocks = RedDecoder::decode(payload).ok()?;
    blocks
        .into_iter()
        .find(|block| block.is_primary)
        .map(|block| block.payload.into())
}

/// Reads the layers of the packets of a stream: from their dependency descriptors, or of VP9 without them from its payload descriptors.
#[derive(Debug, Default)]
pub struct LayerReader {
    dependencies: DependencyReader,
    vp9: Vp9Layers,
}

impl LayerReader {
    /// Whether receivers of a spatial layer need the frames of those below it in key pictures only, as far as is known.
    pub fn has_independent_layers(&self) -> bool {
        self.dependencies.has_independent_layers() || self.vp9.has_independent_layers()
    }

    /// Adds the layer to a packet, which came with this dependency descriptor. A packet with one that cannot be read has none.
    pub fn read(&mut self, media: &mut MediaPacket, descriptor: Option<&DependencyDescriptor>) {
        if let Some(descriptor) = descriptor {
            media.add_dependencies(self.dependencies.read(&descriptor.0));
        } else if let Some(descriptor) = &media.vp9 {
            media.layer = Some(self.vp9.read(descriptor));
        }
    }
}
