//! A media packet between its track and the receivers of that.

use std::borrow::Cow;

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
    pub extensions: Cow<'a, ExtensionValues>,
    /// The last sender report of the layer.
    pub report: Option<SenderReport>,
}

impl Packet<'_> {
    /// Returns a copy for other threads. It shares the payload, and has only those header extensions that receivers get.
    pub fn detached(&self) -> Packet<'static> {
        let extensions = ExtensionValues {
            audio_level: self.extensions.audio_level,
            voice_activity: self.extensions.voice_activity,
            user_values: self.extensions.user_values.clone(),
            ..ExtensionValues::default()
        };
        Packet {
            media: self.media.clone(),
            extensions: Cow::Owned(extensions),
            ..*self
        }
    }
}
