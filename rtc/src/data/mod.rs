//! Data messages between participants (LiveKit's `DataPacket`).

mod backlog;
mod held;
mod packet;
mod recent;

pub use backlog::Backlog;
pub use held::{HeldPacket, HeldPackets};
pub use packet::{Routed, Sender, route, sent_message, server_packet};
pub use recent::RecentMessages;

use std::sync::Arc;

use conclave_model::participant::DataKind;

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

const RELIABLE: &str = "_reliable";
const LOSSY: &str = "_lossy";

/// A message as it goes to every receiver: encoded once.
pub type Message = Arc<[u8]>;
