//! How LiveKit is set, looked at beside everything else: once it answers, after each outage, and now and then, since a
//! cluster may be set anew without ever being away. What was found last is kept for `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use conclave_media::livekit::{LivekitPlane, SettingsFit};
use conclave_model::Clock;
use tokio::sync::{Notify, watch};

/// How soon a server that did not answer is asked again.
const RETRY: Duration = Duration::from_secs(5);
/// How long a finding is believed.
const STALE: Duration = Duration::from_secs(10 * 60);

/// The last finding. Cheap to clone; all clones are the same.
#[derive(Debug, Clone)]
pub struct MediaSettings {
    found: watch::Receiver<Option<SettingsFit>>,
    again: Arc<Notify>,
}

impl MediaSettings {
    /// Looks in a task of its own, for as long as the runtime lives that this is called in.
    #[must_use]
    pub fn watch(plane: LivekitPlane, clock: Clock) -> Self {
        let ((tell, found), again) = (watch::channel(None), Arc::new(Notify::new()));
        let asked = Arc::clone(&again);
        tokio::spawn(async move {
            loop {
                let wait = match plane.settings().await {
                    Ok(fit) => {
                        keep(&tell, fit);
                        STALE
                    }
                    // Whoever calls it says so in the log.
                    Err(_) => RETRY,
                };
                tokio::select! {
                    () = clock.sleep_until(clock.now().after(wait)) => {}
                    () = asked.notified() => {}
                }
            }
        });
        Self { found, again }
    }

    /// Has it looked at soon: LiveKit was away, and may have been set anew.
    pub fn look_again(&self) {
        self.again.notify_one();
    }

    /// `ok`, or what does not fit and what to change; `unknown` until LiveKit has answered.
    #[must_use]
    pub fn finding(&self) -> String {
        self.found.borrow().as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string)
    }
}

/// Keeps a finding, and says in the log what is new about it.
fn keep(tell: &watch::Sender<Option<SettingsFit>>, fit: SettingsFit) {
    let before = tell.send_replace(Some(fit.clone()));
    if before.as_ref() != Some(&fit) && !fit.is_perfect() {
        log::warn!(media = "livekit"; "{fit}");
    }
}
