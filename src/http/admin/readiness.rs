//! Whether what the server needs answers. The parts are asked once a second at most, however many probes ask: each time costs a
//! write and a call of the media plane.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::http::state::AppState;

/// A part that takes longer than this does not answer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the result of a check is used, from its start on.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Which parts answer.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The database can be written.
    pub database: bool,
    /// The media plane answers.
    pub media: bool,
    /// The root actor answers.
    pub actors: bool,
}

impl Parts {
    /// Whether all parts answer.
    pub const fn are_ready(self) -> bool {
        self.database && self.media && self.actors
    }
}

/// A check that has been started, or has finished. Every probe that asks meanwhile waits for the same one.
struct Check {
    /// When it was started, by the monotonic clock.
    started: Duration,
    result: Shared<BoxFuture<'static, Parts>>,
}

/// The last check.
pub struct Readiness {
    state: Arc<AppState>,
    last: Mutex<Option<Check>>,
}

impl Readiness {
    /// Nothing is checked before the first probe.
    pub fn new(state: &Arc<AppState>) -> Self {
        Self {
            state: Arc::clone(state),
            last: Mutex::default(),
        }
    }

    /// Returns which parts answer, as of less than a second ago.
    pub async fn parts(&self) -> Parts {
        self.current().await
    }

    fn current(&self) -> Shared<BoxFuture<'static, Parts>> {
        let now = self.state.clock.monotonic();
        let mut last = self.last.lock();
        match &*last {
            Some(check) if now.saturating_sub(check.started) < MAX_AGE => check.result.clone(),
            _ => {
                let result = check(Arc::clone(&self.state)).boxed().shared();
                last.insert(Check {
                    started: now,
                    result,
                })
                .result
                .clone()
            }
        }
    }
}

async fn check(state: Arc<AppState>) -> Parts {
    Parts {
        database: timeout(CHECK_TIMEOUT, state.store.server().ping())
            .await
            .is_ok_and(|answer| answer.is_ok()),
        media: timeout(CHECK_TIMEOUT, state.media.health())
            .await
            .is_ok_and(|answer| answer.is_ok()),
        actors: state.tree.ping(CHECK_TIMEOUT).await.is_ok(),
    }
}
