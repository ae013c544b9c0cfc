//! The health watch: checks the health of a plane after a failed call, and of one that is called over a network at intervals, and
//! reports its recovery. An outage in which nothing is called may lose reports too.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conclave_model::Timestamp;

use super::{CircuitBreaker, Inner, MonitoredPlane};

/// Interval between two checks of a plane that is called over a network.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before the second health check of an outage. Doubled after each further check.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest delay between two health checks of an outage.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// How long after a recovery a failed call is not reported as another one. A plane may refuse single calls without an
/// outage.
const QUIET_PERIOD: Duration = Duration::from_secs(30);

impl MonitoredPlane {
    /// Calls `on_recovery` each time the plane answers again after an outage, until the current runtime ends.
    pub fn spawn_health_watch(&self, on_recovery: impl Fn() + Send + Sync + 'static) {
        let inner = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut recovered_at = None;
            loop {
                let has_failed = inner.wait_for_check().await;
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
                // Also if the failure was over at the time of the check: reports may have been lost in between.
                recovered_at = Some(inner.clock.now());
                on_recovery();
            }
        });
    }
}

impl Inner {
    /// Waits until the health has to be checked. Returns whether a call has failed.
    async fn wait_for_check(&self) -> bool {
        // A plane in this process has no circuit breaker, and no outage without a failed call.
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
            let next = self.clock.now().after(delay);
            let open_until = self.breaker.as_ref().and_then(CircuitBreaker::open_until);
            tokio::select! {
                () = self.clock.sleep_until(open_until.unwrap_or(next)) => {}
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
