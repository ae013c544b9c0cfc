//! Time is injected: the product runs on the system's clock, tests run on one that they move.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::Timestamp;

/// The longest stretch slept without looking at the wall clock again. A laptop that slept, or a clock that was set,
/// changes when a deadline is noticed by at most this much.
const LONGEST_NAP: Duration = Duration::from_secs(30);

/// The source of the current time. Cheap to clone; all clones show the same time.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System { started: Instant },
    Manual(Arc<watch::Sender<i64>>),
}

impl Clock {
    /// Returns the clock of the machine.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System { started: Instant::now() })
    }

    /// A clock that stands at `start` until [`Clock::advance`] moves it.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(watch::Sender::new(start.millis()))))
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(match &self.0 {
            Source::System { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }
            Source::Manual(now) => *now.borrow(),
        })
    }

    /// A steadily growing reading for measuring spans; it never goes back when the wall clock is set.
    #[must_use]
    pub fn monotonic(&self) -> Duration {
        match &self.0 {
            Source::System { started } => started.elapsed(),
            Source::Manual(now) => Duration::from_millis(u64::try_from(*now.borrow()).unwrap_or(0)),
        }
    }

    /// Advances a manual clock and wakes the sleepers whose deadline has come. Does nothing to the system's clock.
    pub fn advance(&self, span: Duration) {
        if let Source::Manual(now) = &self.0 {
            let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
            now.send_modify(|now| *now = now.saturating_add(millis));
        }
    }

    /// Returns once the clock has reached `deadline`.
    pub async fn sleep_until(&self, deadline: Timestamp) {
        match &self.0 {
            Source::System { .. } => loop {
                let left = deadline.since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_NAP)).await;
            },
            Source::Manual(now) => {
                // An error says that the clock is gone, and with it everybody who could move it.
                let _ = now.subscribe().wait_for(|now| *now >= deadline.millis()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleeper_wakes_when_the_clock_is_moved_past_its_deadline() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let deadline = clock.now().after(Duration::from_secs(5));
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(deadline).await }
        });
        clock.advance(Duration::from_secs(4));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
        assert_eq!(clock.now(), deadline);
    }

    #[test]
    fn the_system_clock_cannot_be_moved() {
        let clock = Clock::system();
        clock.advance(Duration::from_secs(3_600));
        let real = Timestamp::from_millis(
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap(),
        );
        assert!(real.since(clock.now()) < Duration::from_secs(60));
        assert!(clock.now().since(real) < Duration::from_secs(60));
    }
}
