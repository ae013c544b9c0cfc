//! A room of a worker.

use std::collections::HashMap;

use conclave_model::{NamespacedRoom, TrackSid};

use crate::data::RecentMessages;
use crate::transport::{PeerKey, TrackKey};

/// A room of a worker: its participants and what they publish.
#[derive(Debug)]
pub struct Room {
    /// The name.
    pub name: NamespacedRoom,
    /// The participants in the order of their joins.
    pub peers: Vec<PeerKey>,
    /// The published tracks.
    pub tracks: HashMap<TrackSid, TrackKey>,
    /// The last reliable messages.
    pub recent: RecentMessages,
    /// Whether user messages are reported.
    pub reports_messages: bool,
}

impl Room {
    /// Opens an empty room.
    pub fn new(name: NamespacedRoom) -> Self {
        Self {
            name,
            peers: Vec::new(),
            tracks: HashMap::new(),
            recent: RecentMessages::default(),
            reports_messages: false,
        }
    }
}
