//! Data messages between participants (LiveKit's `DataPacket`).

mod backlog;
mod link;
mod packet;
mod recent;

pub use backlog::Backlog;
pub use link::{BYTES_TO_WAIT_FOR, DataLink};
pub use packet::{Routed, Sender, route, route_plain, sent_message, server_packet};
pub use recent::RecentMessages;

use std::sync::Arc;

pub use conclave_model::participant::DataKind;

/// Returns the kind of a channel's messages; `None` for a channel with another use.
pub fn kind_of_channel(label: &str) -> Option<DataKind> {
    match label {
        // Labels of LiveKit's protocol.
        RELIABLE => Some(DataKind::Reliable),
        LOSSY => Some(DataKind::Lossy),
        _ => None,
    }
}

/// Returns the label of the channel for messages of this kind.
pub const fn channel_of_kind(kind: DataKind) -> &'static str {
    match kind {
        DataKind::Reliable => RELIABLE,
        DataKind::Lossy => LOSSY,
    }
}

/// Returns whether messages on a channel are opaque and for all participants. Clients that do not use LiveKit's SDKs
/// open channels with any label, which LiveKit permits.
pub fn is_plain_channel(label: &str) -> bool {
    kind_of_channel(label).is_none() && label != DATA_TRACK
}

/// Label of the channel for data track packets.
pub const DATA_TRACK: &str = "_data_track";
const RELIABLE: &str = "_reliable";
const LOSSY: &str = "_lossy";

/// Encoded message, shared by its receivers.
pub type Message = Arc<[u8]>;
