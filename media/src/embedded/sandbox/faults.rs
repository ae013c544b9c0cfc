//! Simulated failures: outages of the port, and lost reports.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conclave_model::Clock;
use parking_lot::Mutex;

use crate::port::MediaError;

/// Currently simulated failures.
#[derive(Debug, Default)]
pub(in crate::embedded) struct SimulatedFaults {
    /// Monotonic reading until which port calls fail.
    outage_until: Mutex<Duration>,
    /// Number of reports that are still to drop.
    reports_to_drop: AtomicU32,
}

impl SimulatedFaults {
    /// Makes all port calls fail for a duration. Participants stay connected, and reports are sent.
    pub fn simulate_outage(&self, clock: &Clock, duration: Duration) {
        // On the monotonic clock: an adjustment of the time of day neither ends nor prolongs an outage.
        *self.outage_until.lock() = clock.monotonic() + duration;
    }

    /// Fails a port call during an outage.
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
        // Saturates at zero: `fetch_update` fails once no drops are left.
        self.reports_to_drop
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                count.checked_sub(1)
            })
            .is_ok()
    }
}
