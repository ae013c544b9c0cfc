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

/// Returns the kind of the messages on a channel; `None` for a channel that carries something else.
pub fn kind_of_channel(label: &str) -> Option<DataKind> {
    match label {
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

/// Returns whether what is sent on a channel is a message as it is, for all: clients of other makes open channels of any label, as LiveKit
/// permits.
pub fn is_plain_channel(label: &str) -> bool {
    kind_of_channel(label).is_none() && label != DATA_TRACK
}

/// The label of the channel for packets of data tracks.
pub const DATA_TRACK: &str = "_data_track";
const RELIABLE: &str = "_reliable";
const LOSSY: &str = "_lossy";

/// A message as it goes to every receiver: encoded once.
pub type Message = Arc<[u8]>;
