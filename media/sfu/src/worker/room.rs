//! A room of a worker.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use conclave_model::{NamespacedRoom, TrackSid};

use crate::data::RecentMessages;
use crate::transport::{PeerKey, TrackKey};

/// A room of a worker: its participants and what they publish.
#[derive(Debug)]
pub struct Room {
    /// The room's name, with its project.
    pub name: NamespacedRoom,
    /// The participants in the order of their joins.
    pub peers: Vec<PeerKey>,
    /// The published tracks.
    pub tracks: HashMap<TrackSid, TrackKey>,
    /// The offers that its clients were asked for.
    pub asked: AskedOffers,
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
            asked: AskedOffers::default(),
            recent: RecentMessages::default(),
            reports_messages: false,
        }
    }
}

/// How long an offer that was asked for is expected before others are asked in its place.
const EXPECTED: Duration = Duration::from_secs(1);

/// The offers that clients were asked for and that have not come. Not all are asked at once when something changes: the worker
/// handles one after the other, and what waits for it is bounded.
#[derive(Debug, Default)]
pub struct AskedOffers {
    offers: HashMap<PeerKey, (Instant, usize)>,
    bytes: usize,
}

impl AskedOffers {
    /// Adds the offer of a client, of so many bytes, if it fits into the most bytes beside the others.
    pub fn add(&mut self, peer: PeerKey, bytes: usize, most: usize, now: Instant) -> bool {
        self.remove(peer);
        if self.bytes + bytes > most {
            self.offers
                .retain(|_, (at, _)| now.saturating_duration_since(*at) < EXPECTED);
            self.bytes = self.offers.values().map(|(_, bytes)| bytes).sum();
        }
        let fits = self.offers.is_empty() || self.bytes + bytes <= most;
        if fits {
            self.bytes += bytes;
            self.offers.insert(peer, (now, bytes));
        }
        fits
    }

    /// Removes the offer of a client: it has come, or comes no more.
    pub fn remove(&mut self, peer: PeerKey) {
        if let Some((_, bytes)) = self.offers.remove(&peer) {
            self.bytes -= bytes;
        }
    }
}
