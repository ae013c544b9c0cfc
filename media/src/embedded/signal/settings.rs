//! What clients may do, as it is set before the first one joins.

use std::num::NonZeroU32;

use super::budget::{Budgets, DEFAULT_CHANGES};
use crate::embedded::plane::{EmbeddedPlane, Inner};

impl EmbeddedPlane {
    /// Sets how many changes a second a participant may make by signalling. Only the first call has an effect; returns whether
    /// this was the first, and no client had connected.
    pub fn set_changes_per_second(&self, changes: NonZeroU32) -> bool {
        self.inner().budgets.set(Budgets::new(&self.inner().clock, changes)).is_ok()
    }

    /// Lets clients that join from now on simulate failures of the server.
    pub fn permit_simulations(&self) {
        self.inner().simulations.get_or_init(|| ());
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
