//! Whether one project has the server for itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long after a request of another project the server counts as shared.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// Whether more than one project sends requests.
#[derive(Debug)]
pub(super) struct Sharing {
    start: Instant,
    /// The hash of the project that has sent the latest request.
    latest: AtomicU64,
    /// When another one had, in milliseconds since the start.
    changed: AtomicU64,
}

impl Sharing {
    /// No project has sent a request yet.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            latest: AtomicU64::new(0),
            changed: AtomicU64::new(0),
        }
    }

    /// Returns the milliseconds since the start.
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes a request of a project, by its hash, at a time.
    pub fn note(&self, project: u64, now: u64) {
        if self.latest.load(Ordering::Relaxed) != project {
            self.latest.store(project, Ordering::Relaxed);
            self.changed.store(now, Ordering::Relaxed);
        }
    }

    /// Returns whether another project than that of the latest request has sent one lately.
    pub fn is_shared(&self, now: u64) -> bool {
        u128::from(now.saturating_sub(self.changed.load(Ordering::Relaxed)))
            < SHARED_FOR.as_millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_shared_for_a_second_after_a_request_of_another_project() {
        let sharing = Sharing::new();
        let seen = [
            (1, 0),
            (1, 999),
            (1, 1_000),
            (1, 5_000),
            (2, 5_001),
            (1, 5_500),
            (1, 6_499),
            (1, 6_500),
        ]
        .map(|(project, now)| {
            sharing.note(project, now);
            sharing.is_shared(now)
        });
        assert_eq!(seen, [true, true, false, false, true, true, true, false]);
    }
}
