//! Settings of the plane that are made before clients connect.

use std::sync::Arc;

use super::plane::EmbeddedPlane;
use super::turn::TurnServers;

impl EmbeddedPlane {
    /// Sets the TURN servers that clients are given. Only the first call has an effect; returns whether this was the first.
    pub fn set_turn_servers(&self, servers: TurnServers) -> bool {
        self.inner().turn.set(Arc::new(servers)).is_ok()
    }

    /// Sets how many tracks a participant may have at once.
    pub fn set_max_tracks(&self, tracks: usize) {
        self.inner().call(|machine, _| machine.set_max_tracks(tracks));
    }
}
