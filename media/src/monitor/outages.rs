//! Outages of a plane: while it is unavailable, calls are rejected, and its recovery is reported.
//!
//! After several consecutive failures, the circuit breaker rejects calls for a while, so that not every caller waits
//! for a timeout.
//!
//! ```text
//! closed ── consecutive failures ──▶ open ── time is over ──▶ half-open: one call is allowed
//!    ▲                                ▲                            │
//!    │                                └───────── it fails ─────────┤
//!    └────────────────────────────────────────── it succeeds ──────┘
//! ```
//!
//! The health watch checks a plane's health after a failed call, and at intervals if the plane is called through a
//! network, and reports its recovery. Reports can also be lost in an outage during which no call is made.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conclave_model::Timestamp;
use parking_lot::Mutex;

use super::{MonitorState, MonitoredPlane};

/// Settings of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitSettings {
    /// Consecutive failures that open it.
    pub failures: u32,
    /// Time for which it stays open before one call is allowed.
    pub open: Duration,
}

#[derive(Debug)]
pub(super) struct CircuitBreaker {
    settings: CircuitSettings,
    state: Mutex<CircuitState>,
}

#[derive(Debug, Clone, Copy)]
enum CircuitState {
    Closed {
        failures: u32,
    },
    /// Half-open once `until` has passed.
    Open {
        until: Timestamp,
    },
}

impl CircuitBreaker {
    pub fn new(settings: CircuitSettings) -> Self {
        Self {
            settings,
            state: Mutex::new(CircuitState::Closed { failures: 0 }),
        }
    }

    /// Returns whether a call may be made, or the time for which calls are still rejected. Once the open time is over,
    /// one call is allowed, and the open time starts again for all others.
    pub fn check(&self, now: Timestamp) -> Result<(), Duration> {
        let mut state = self.state.lock();
        match *state {
            CircuitState::Open { until } if self.is_open(until, now) => Err(until.since(now)),
            CircuitState::Open { .. } => {
                *state = self.open_from(now);
                Ok(())
            }
            CircuitState::Closed { .. } => Ok(()),
        }
    }

    /// Records a call with a reply: the breaker closes.
    pub fn record_success(&self) {
        *self.state.lock() = CircuitState::Closed { failures: 0 };
    }

    /// Records a call without a reply.
    pub fn record_failure(&self, now: Timestamp) {
        let mut state = self.state.lock();
        *state = match *state {
            CircuitState::Closed { failures } if failures + 1 < self.settings.failures => {
                CircuitState::Closed {
                    failures: failures + 1,
                }
            }
            CircuitState::Closed { .. } => {
                let CircuitSettings { failures, open } = self.settings;
                log::warn!(
                    "the media plane did not reply to {failures} consecutive calls; calls are rejected for {open:?}"
                );
                self.open_from(now)
            }
            // The one call in the half-open state has failed, or a call that started before the breaker opened.
            CircuitState::Open { .. } => self.open_from(now),
        };
    }

    /// Records a successful health check; returns whether the breaker is closed. The success closes it only once the
    /// open time is over: a plane may reply to health checks and to no other call.
    pub fn record_health_success(&self, now: Timestamp) -> bool {
        let mut state = self.state.lock();
        if matches!(*state, CircuitState::Open { until } if !self.is_open(until, now)) {
            *state = CircuitState::Closed { failures: 0 };
        }
        matches!(*state, CircuitState::Closed { .. })
    }

    /// Returns when the breaker becomes half-open; `None` if it is closed.
    pub fn open_until(&self) -> Option<Timestamp> {
        match *self.state.lock() {
            CircuitState::Open { until } => Some(until),
            CircuitState::Closed { .. } => None,
        }
    }

    /// Returns whether the open time is not over.
    fn is_open(&self, until: Timestamp, now: Timestamp) -> bool {
        // An end further away than the open time lasts was computed before the clock was set back.
        now < until && until <= now.after(self.settings.open)
    }

    fn open_from(&self, now: Timestamp) -> CircuitState {
        CircuitState::Open {
            until: now.after(self.settings.open),
        }
    }
}

/// Interval between health checks of a plane that is called through a network.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before the second health check in an outage. Doubled after each further check.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay between two health checks in an outage.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// Time after a recovery in which a failed call is not reported as another one. A plane may refuse single calls without
/// an outage.
const QUIET_PERIOD: Duration = Duration::from_secs(30);

impl MonitoredPlane {
    /// Calls `on_recovery` each time the plane is available again after an outage, until the current runtime ends.
    pub fn spawn_health_watch(&self, on_recovery: impl Fn() + Send + Sync + 'static) {
        let inner = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut recovered_at = None;
            loop {
                let has_failed = inner.wait_for_check().await;
                // A plane that only runs its periodic check and is healthy has nothing to report.
                if !has_failed && inner.plane.health().await.is_ok() {
                    continue;
                }
                if !inner.has_recovered().await {
                    inner.wait_for_recovery().await;
                } else if recovered_at
                    .is_some_and(|at: Timestamp| inner.clock.now().since(at) < QUIET_PERIOD)
                {
                    continue;
                }
                // Reported even if the failure was over by the time of the check: reports may have been lost in
                // between.
                recovered_at = Some(inner.clock.now());
                on_recovery();
            }
        });
    }
}

impl MonitorState {
    /// Waits until a health check is due. Returns whether a call has failed.
    async fn wait_for_check(&self) -> bool {
        // A plane in this process has no circuit breaker, and cannot be unavailable without a failed call.
        if self.breaker.is_none() {
            self.health_check.notified().await;
            return true;
        }
        tokio::select! {
            () = self.health_check.notified() => true,
            () = self.clock.sleep_until(self.clock.now().after(CHECK_INTERVAL)) => false,
        }
    }

    /// Checks the health. Returns whether the plane is healthy and the circuit breaker allows calls.
    async fn has_recovered(&self) -> bool {
        let health = self.plane.health().await;
        self.is_unreachable
            .store(health.is_err(), Ordering::Relaxed);
        let now = self.clock.now();
        match (&health, &self.breaker) {
            // Counts as a failed call, so that the breaker also opens if nothing else calls the plane.
            (Err(error), breaker) => {
                log::warn!(media = self.plane.kind(); "{error}");
                breaker
                    .iter()
                    .for_each(|breaker| breaker.record_failure(now));
                false
            }
            (Ok(()), Some(breaker)) => breaker.record_health_success(now),
            (Ok(()), None) => true,
        }
    }

    async fn wait_for_recovery(&self) {
        let mut delay = FIRST_DELAY;
        loop {
            // While the breaker is open, a successful check would change nothing, so the next one waits for its end.
            let next = self.clock.now().after(delay);
            let open_until = self.breaker.as_ref().and_then(CircuitBreaker::open_until);
            tokio::select! {
                () = self.clock.sleep_until(open_until.unwrap_or(next)) => {}
                // A call's outcome contradicts the last check, which is then repeated at once.
                () = self.health_check.notified() => {}
            }
            if self.has_recovered().await {
                log::info!(media = self.plane.kind(); "the media plane has recovered");
                return;
            }
            delay = delay.saturating_mul(2).min(MAX_DELAY);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: CircuitSettings = CircuitSettings {
        failures: 3,
        open: Duration::from_secs(5),
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_allows_one_call_when_its_time_is_over() {
        let breaker = CircuitBreaker::new(SETTINGS);
        // Two failures, then a success: never three in a row.
        for _ in 0..2 {
            breaker.record_failure(at(0));
            breaker.record_failure(at(0));
            assert_eq!(breaker.check(at(0)), Ok(()));
            breaker.record_success();
        }
        for _ in 0..3 {
            breaker.record_failure(at(1));
        }
        assert_eq!(breaker.check(at(2)), Err(Duration::from_secs(4)));
        assert!(
            !breaker.record_health_success(at(2)),
            "a health check does not shorten the open time"
        );
        assert_eq!(
            (breaker.check(at(6)), breaker.check(at(6))),
            (Ok(()), Err(Duration::from_secs(5)))
        );
        breaker.record_failure(at(7));
        assert_eq!(breaker.open_until(), Some(at(12)));
        assert!(breaker.record_health_success(at(12)));
        assert_eq!(
            (breaker.check(at(12)), breaker.check(at(12))),
            (Ok(()), Ok(()))
        );
    }

    #[derive(Debug, Clone, Copy)]
    enum BreakerStep {
        Success,
        Failure,
        HealthSuccess,
        Wait(i64),
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_keep_it_open() {
        let breaker = CircuitBreaker::new(SETTINGS);
        (0..SETTINGS.failures).for_each(|_| breaker.record_failure(at(90_000)));
        assert!(breaker.check(at(90_001)).is_err());
        // 25 hours back: the open time's end is now further away than it lasts.
        assert_eq!(breaker.check(at(1)), Ok(()));
        assert!(breaker.check(at(2)).is_err());
        assert!(breaker.record_health_success(at(7)));
    }

    fn step() -> impl Strategy<Value = BreakerStep> {
        prop_oneof![
            1 => Just(BreakerStep::Success),
            3 => Just(BreakerStep::Failure),
            1 => Just(BreakerStep::HealthSuccess),
            1 => (0..4_i64).prop_map(BreakerStep::Wait),
        ]
    }

    proptest! {
        /// The circuit breaker rejects calls only after enough failures in a row and never longer than its time, and allows one call at
        /// a time.
        #[test]
        fn it_never_rejects_calls_too_early_or_for_too_long(steps in prop::collection::vec(step(), 0..60)) {
            let breaker = CircuitBreaker::new(SETTINGS);
            let (mut now, mut in_a_row, mut last_failure) = (0, 0, 0);
            for step in steps {
                match step {
                    BreakerStep::Success => { breaker.record_success(); in_a_row = 0; }
                    BreakerStep::Failure => { breaker.record_failure(at(now)); in_a_row += 1; last_failure = now; }
                    BreakerStep::HealthSuccess => { if breaker.record_health_success(at(now)) && in_a_row >= SETTINGS.failures { in_a_row = 0; } }
                    BreakerStep::Wait(seconds) => now += seconds,
                }
                match breaker.check(at(now)) {
                    Ok(()) if in_a_row >= SETTINGS.failures => {
                        prop_assert!(at(last_failure).after(SETTINGS.open) <= at(now));
                        prop_assert!(breaker.check(at(now)).is_err(), "only one call is allowed");
                        last_failure = now;
                    }
                    Ok(()) => {}
                    Err(wait) => {
                        prop_assert!(in_a_row >= SETTINGS.failures);
                        prop_assert!(wait <= SETTINGS.open && at(last_failure).after(SETTINGS.open) >= at(now).after(wait));
                    }
                }
            }
        }
    }
}
