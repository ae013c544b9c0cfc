//! A packet on its way from a publisher to the receivers of its track.

use str0m::format::PayloadParams;
use str0m::media::Pt;
use str0m::rtp::ExtensionValues;

use crate::adapt::MediaPacket;
use crate::recorder::SenderReport;

/// What a payload type of the publisher stands for.
#[derive(Debug, Clone, Copy)]
pub struct Incoming {
    /// The codec and its parameters.
    pub params: PayloadParams,
    /// Whether the packets hold earlier sound as well.
    pub is_red: bool,
}

/// A packet on its way to the receivers of a layer.
pub struct Packet<'a> {
    /// The payload, and what the forwarding has read from it.
    pub media: MediaPacket,
    /// What its payload type stands for.
    pub incoming: Incoming,
    /// The payload type of the publisher.
    pub payload_type: Pt,
    /// Whether it is the last one of a picture of video.
    pub is_last: bool,
    /// Whether its source has several layers.
    pub is_layered: bool,
    /// The header extensions.
    pub extensions: &'a ExtensionValues,
    /// The last sender report of the layer.
    pub report: Option<SenderReport>,
}
