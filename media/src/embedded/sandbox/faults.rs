//! Failures that the sandbox simulates: outages of the port, and reports that are lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conclave_model::Clock;
use parking_lot::Mutex;

use crate::port::MediaError;

/// The failures that are simulated now.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Faults {
    /// The monotonic reading until which calls of the port fail.
    outage_until: Mutex<Duration>,
    /// Number of the next reports that are dropped.
    reports_to_drop: AtomicU32,
}

impl Faults {
    /// Lets all calls of the port fail for a duration. Participants stay connected, and reports are sent.
    pub fn simulate_outage(&self, clock: &Clock, duration: Duration) {
        *self.outage_until.lock() = clock.monotonic() + duration;
    }

    /// Fails a call of the port during an outage.
    pub fn check_outage(&self, clock: &Clock) -> Result<(), MediaError> {
        if clock.monotonic() < *self.outage_until.lock() {
            return Err(MediaError::Unavailable(
                "an outage that the sandbox simulates".into(),
            ));
        }
        Ok(())
    }

    /// Drops the next `count` reports.
    pub fn drop_reports(&self, count: u32) {
        self.reports_to_drop.store(count, Ordering::Relaxed);
    }

    /// Returns whether the next report is dropped, and counts it.
    pub fn take_drop(&self) -> bool {
        self.reports_to_drop
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                count.checked_sub(1)
            })
            .is_ok()
    }
}
