//! Participants by sid: after joining again, an identity has a new sid.

use std::collections::BTreeSet;

use livekit_protocol as proto;

use crate::{Double, State};

impl Double {
    /// Sids of all connected participants.
    #[must_use]
    pub fn connected(&self) -> BTreeSet<String> {
        let state = self.lock();
        let participants = state
            .rooms
            .values()
            .flat_map(|room| room.participants.values());
        participants
            .map(|participant| participant.sid.clone())
            .collect()
    }

    /// Disconnects a participant. Returns whether it was connected.
    pub fn leave_by_sid(&self, sid: &str, reason: proto::DisconnectReason) -> bool {
        let mut state = self.lock();
        let Some((room, identity)) = state.find(sid) else {
            return false;
        };
        state.remove_participant(&room, &identity, reason, self);
        true
    }

    /// Publishes a participant's track. Returns the track's sid; `None` if the participant is not connected.
    #[must_use]
    pub fn publish_by_sid(
        &self,
        sid: &str,
        kind: proto::TrackType,
        source: proto::TrackSource,
    ) -> Option<String> {
        let mut state = self.lock();
        let (room, identity) = state.find(sid)?;
        state.publish(&room, &identity, kind, source, self)
    }
}

impl State {
    /// Returns a participant's room and identity.
    fn find(&self, sid: &str) -> Option<(String, String)> {
        self.rooms.iter().find_map(|(name, room)| {
            let found = room
                .participants
                .values()
                .find(|participant| participant.sid == sid)?;
            Some((name.clone(), found.identity.clone()))
        })
    }
}
