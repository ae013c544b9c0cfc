//! Periodic check of the LiveKit server's configuration. `/readyz` shows its latest result.
//!
//! The check runs when LiveKit first responds, after each outage, and every 10 min, since a cluster can be reconfigured without an outage.

use std::sync::Arc;
use std::time::Duration;

use conclave_media::livekit::{ConfigCheck, LivekitPlane};
use conclave_model::Clock;
use tokio::sync::{Notify, watch};

/// Delay after a check without a response.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Interval between checks with a response.
const CHECK_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Handle of the background task that checks LiveKit's configuration. Clones share one task.
#[derive(Debug, Clone)]
pub struct LivekitConfigMonitor {
    latest: watch::Receiver<Option<ConfigCheck>>,
    requested: Arc<Notify>,
}

impl LivekitConfigMonitor {
    /// Spawns the task on the current runtime. It runs until that runtime ends.
    pub fn spawn(plane: LivekitPlane, clock: Clock) -> Self {
        let ((results, latest), requested) = (watch::channel(None), Arc::new(Notify::new()));
        let monitor = Self {
            latest,
            requested: Arc::clone(&requested),
        };
        tokio::spawn(async move {
            loop {
                let delay = match plane.check_config().await {
                    Ok(check) => {
                        store_result(&results, check);
                        CHECK_INTERVAL
                    }
                    // `LivekitPlane` has logged the failed call.
                    Err(_) => RETRY_DELAY,
                };
                tokio::select! {
                    () = clock.sleep_until(clock.now().after(delay)) => {}
                    () = requested.notified() => {}
                }
            }
        });
        monitor
    }

    /// Runs the next check now, because LiveKit was unreachable and may have been reconfigured meanwhile.
    pub fn request_check(&self) {
        self.requested.notify_one();
    }

    /// Returns `ok`, the mismatches with their corrections, or `unknown` until LiveKit has responded once.
    pub fn status(&self) -> String {
        self.latest
            .borrow()
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), ToString::to_string)
    }
}

/// Publishes a result. Logs it if it is not ok and differs from the previous one.
fn store_result(results: &watch::Sender<Option<ConfigCheck>>, check: ConfigCheck) {
    let previous = results.send_replace(Some(check.clone()));
    if previous.as_ref() != Some(&check) && !check.is_ok() {
        log::warn!(media = "livekit"; "{check}");
    }
}
