//! The end of all sessions, because the server stops.

use std::time::Duration;

use tokio::time::timeout;

use super::machine::Machine;
use super::plane::{EmbeddedPlane, await_answers};

impl EmbeddedPlane {
    /// Lets no participant join from now on, disconnects those that are connected, and asks their clients to connect anew. Returns
    /// whether the control plane has recorded the end of every session within `limit`.
    pub async fn end_sessions(&self, limit: Duration) -> bool {
        self.inner().common.stop();
        // A join that is not among these rooms finds that the server stops: it locks its room later than this.
        let rooms = self.inner().rooms.all();
        let answers = rooms
            .iter()
            .flat_map(|room| self.inner().call_in(room, Machine::stop).1)
            .collect();
        matches!(timeout(limit, await_answers(answers)).await, Ok(Ok(())))
    }
}
