//! The watch: looks at the health of a plane that failed, and says when it is back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conclave_model::Timestamp;

use super::{Inner, MonitoredPlane};

/// How soon a plane that is away is looked at again; doubled each time.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How long it is left alone at most.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long after a return it is not told of another for the sake of single calls that failed: a plane refuses some for
/// reasons of its own.
const QUIET: Duration = Duration::from_secs(30);

impl MonitoredPlane {
    /// Calls `returned` whenever the plane answers again after it was away, for as long as the runtime lives that this is
    /// called in.
    pub fn watch(&self, returned: impl Fn() + Send + Sync + 'static) {
        let guard = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut told = None;
            loop {
                guard.look.notified().await;
                if !guard.is_back().await {
                    guard.wait_for_return().await;
                } else if told.is_some_and(|told: Timestamp| guard.clock.now().since(told) < QUIET) {
                    continue;
                }
                // Also after a failure that was over by the time of the look: what was lost in it is lost all the same.
                told = Some(guard.clock.now());
                returned();
            }
        });
    }
}

impl Inner {
    /// Looks at the health. A plane is back when that is good and calls are made again.
    async fn is_back(&self) -> bool {
        let health = self.plane.health().await;
        self.away.store(health.is_err(), Ordering::Relaxed);
        let now = self.clock.now();
        match (&health, &self.circuit) {
            (Err(error), circuit) => {
                log::warn!(media = self.plane.kind(); "{error}");
                circuit.iter().for_each(|circuit| circuit.failed(now));
                false
            }
            (Ok(()), Some(circuit)) => circuit.looked_well(now),
            (Ok(()), None) => true,
        }
    }

    async fn wait_for_return(&self) {
        let mut wait = FIRST_LOOK;
        loop {
            let next = self.clock.now().after(wait);
            let open_until = self.circuit.as_ref().and_then(super::Circuit::open_until);
            tokio::select! {
                () = self.clock.sleep_until(open_until.unwrap_or(next)) => {}
                () = self.look.notified() => {}
            }
            if self.is_back().await {
                log::info!(media = self.plane.kind(); "the media plane is back");
                return;
            }
            wait = wait.saturating_mul(2).min(LONGEST_WAIT);
        }
    }
}
