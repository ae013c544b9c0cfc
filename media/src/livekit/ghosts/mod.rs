//! Ghost participants: LiveKit lists them, but no node has a connection to them.
//!
//! A LiveKit node that dies leaves its participants in LiveKit's store. A participant that does not reconnect remains
//! listed until the room is deleted, and its session would stay open as long. So each read of a room's participants
//! starts a search in a spawned task, if the last one is long enough ago:
//!
//! 1. The room's node counts its participants. A room without a node is assigned one, which closes the room if it is
//!    empty.
//! 2. If the node has fewer than LiveKit lists, a call without effect is made for each, oldest join first.
//! 3. A participant for which no node responds is a ghost.

pub(super) mod search;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use conclave_model::participant::Participant;
use conclave_model::{NamespacedRoom, ParticipantSid, Timestamp};
use parking_lot::Mutex;

/// Minimum interval between two searches in a room.
const SEARCH_INTERVAL: Duration = Duration::from_secs(30);

/// Ghost participants by room. A ghost's sid remains one, since a new connection has a new sid.
#[derive(Debug, Default)]
pub(super) struct GhostParticipants(Mutex<HashMap<NamespacedRoom, RoomGhosts>>);

#[derive(Debug)]
struct RoomGhosts {
    searched_at: Timestamp,
    sids: BTreeSet<ParticipantSid>,
}

impl GhostParticipants {
    /// Forgets a room.
    pub fn forget(&self, room: &NamespacedRoom) {
        self.0.lock().remove(room);
    }

    /// Returns whether a participant is known to be a ghost.
    pub fn contains(&self, room: &NamespacedRoom, sid: &ParticipantSid) -> bool {
        self.0
            .lock()
            .get(room)
            .is_some_and(|ghosts| ghosts.sids.contains(sid))
    }

    /// Returns whether a search in the room is due, and records that it starts now.
    pub fn start_search(&self, room: &NamespacedRoom, now: Timestamp) -> bool {
        let mut rooms = self.0.lock();
        match rooms.get_mut(room) {
            Some(ghosts) if ghosts.searched_at.after(SEARCH_INTERVAL) > now => false,
            // Recorded at the start, so that concurrent reads start one search.
            Some(ghosts) => {
                ghosts.searched_at = now;
                true
            }
            None => {
                rooms.insert(
                    room.clone(),
                    RoomGhosts {
                        searched_at: now,
                        sids: BTreeSet::new(),
                    },
                );
                true
            }
        }
    }

    /// Adds a search's ghosts, and removes ghosts that LiveKit no longer lists.
    pub fn record(
        &self,
        room: &NamespacedRoom,
        found: BTreeSet<ParticipantSid>,
        listed: &[Participant],
    ) {
        // Absent if the room was closed during the search.
        if let Some(ghosts) = self.0.lock().get_mut(room) {
            ghosts.sids.extend(found);
            ghosts
                .sids
                // LiveKit drops a ghost when its room is deleted, so the set stays as small as the list.
                .retain(|sid| listed.iter().any(|participant| participant.sid == *sid));
        }
    }
}
