//! How much a thread has to do.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How often the processor time is read: that is a system call.
const INTERVAL: Duration = Duration::from_millis(100);

/// The processor time of the calling thread, and the time in which it had nothing to do.
pub struct Workload {
    /// When the processor time was read last, and what it was.
    read: (Instant, Duration),
    /// For how long the thread has waited since then.
    waited: Duration,
    /// Since when it waits.
    waits_since: Instant,
}

impl Workload {
    /// Starts to measure at `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            read: (now, processor_time()),
            waited: Duration::ZERO,
            waits_since: now,
        }
    }

    /// Notes that the thread has something to do from now on.
    pub fn note_begin(&mut self, now: Instant) {
        self.waited += now.saturating_duration_since(self.waits_since);
    }

    /// Notes that it waits from now on. Returns the processor time and the waits since the last return, if it is time to say so.
    pub fn note_end(&mut self, now: Instant) -> Option<(Duration, Duration)> {
        self.waits_since = now;
        let (at, before) = self.read;
        if now.saturating_duration_since(at) < INTERVAL {
            return None;
        }
        self.read = (now, processor_time());
        Some((
            self.read.1.saturating_sub(before),
            std::mem::take(&mut self.waited),
        ))
    }
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime)
        .try_into()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_waits_are_told_apart() {
        let begun = Instant::now();
        let mut workload = Workload::new(begun);
        workload.note_begin(begun + INTERVAL / 2);
        while processor_time().saturating_sub(workload.read.1) < Duration::from_millis(20) {}
        assert_eq!(
            workload.note_end(begun + INTERVAL * 3 / 4),
            None,
            "it is too early"
        );
        workload.note_begin(begun + INTERVAL);
        let (worked, waited) = workload.note_end(begun + INTERVAL).unwrap();
        assert!((20..80).contains(&worked.as_millis()), "{worked:?}");
        assert_eq!(waited, INTERVAL * 3 / 4);
    }
}
