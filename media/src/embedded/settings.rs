//! Settings of the plane that are made before clients connect.

use std::sync::Arc;

use super::plane::{EmbeddedPlane, Inner};
use super::signal::budget::{Budgets, DEFAULT_CHANGES};
use super::turn::TurnServers;
use crate::port::ReportSink;

impl EmbeddedPlane {
    /// Sets where reports go. Only the first call has an effect; returns whether this was the first.
    pub fn set_report_sink(&self, sink: Arc<dyn ReportSink>) -> bool {
        self.inner().sink.set(sink).is_ok()
    }

    /// Sets the TURN servers that clients are given. Only the first call has an effect; returns whether this was the first.
    pub fn set_turn_servers(&self, servers: TurnServers) -> bool {
        self.inner().turn.set(Arc::new(servers)).is_ok()
    }

    /// Sets how many tracks a participant may have at once.
    pub fn set_max_tracks(&self, tracks: usize) {
        self.inner().call(|machine, _| machine.set_max_tracks(tracks));
    }

    /// Sets how many changes a second a participant may make by signalling. Only the first call has an effect; returns whether
    /// this was the first, and no client had connected.
    pub fn set_changes_per_second(&self, changes: u32) -> bool {
        self.inner().budgets.set(Budgets::new(&self.inner().clock, changes)).is_ok()
    }
}

impl Inner {
    /// Returns what clients may send.
    pub fn budgets(&self) -> &Budgets {
        self.budgets.get_or_init(|| Budgets::new(&self.clock, DEFAULT_CHANGES))
    }

    /// Returns whether clients may simulate failures of the server.
    pub fn permits_simulations(&self) -> bool {
        self.simulations.get().is_some()
    }
}
