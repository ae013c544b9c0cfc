//! A media packet between its track and the track's receivers.

use std::borrow::Cow;

use str0m::format::PayloadParams;
use str0m::media::Pt;
use str0m::rtp::ExtensionValues;

use crate::adapt::MediaPacket;
use crate::recorder::SenderReport;

/// Meaning of a publisher's payload type.
#[derive(Debug, Clone, Copy)]
pub struct Incoming {
    /// Codec with its parameters.
    pub params: PayloadParams,
    /// Whether packets also contain earlier audio (RED).
    pub is_red: bool,
}

/// A packet on its way to a layer's receivers.
pub struct Packet<'a> {
    /// The payload, and the properties that forwarding depends on.
    pub media: MediaPacket,
    /// Meaning of its payload type.
    pub incoming: Incoming,
    /// The publisher's payload type.
    pub payload_type: Pt,
    /// Whether it is the last packet of a video frame.
    pub is_last: bool,
    /// Whether its SSRC carries several layers.
    pub is_layered: bool,
    /// Header extensions.
    pub extensions: Cow<'a, ExtensionValues>,
    /// The layer's last sender report.
    pub report: Option<SenderReport>,
}

impl Packet<'_> {
    /// Returns a copy for other threads. It shares the payload, and contains only header extensions that receivers get.
    pub fn detached(&self) -> Packet<'static> {
        let extensions = ExtensionValues {
            // Extensions such as transport-wide sequence numbers belong to the publisher's connection.
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
