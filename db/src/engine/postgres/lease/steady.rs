//! The steady clock of the lease.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine was started. Unlike `Instant`, it goes on while the machine sleeps: a server that wakes must
/// not trust a renewal from before.
pub(super) fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}
