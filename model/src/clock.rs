//! Injected time: the product uses the system's clock, tests move their own.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::Timestamp;

/// Maximum sleep between two looks at the wall clock. If it was set, or the machine was suspended,
/// a deadline is noticed at most this late.
const LONGEST_NAP: Duration = Duration::from_secs(30);

/// Time source. Cheap to clone; all clones show the same time.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System { started: Instant },
    Manual(Arc<watch::Sender<ManualTime>>),
}

/// A manual clock's time.
#[derive(Debug, Clone, Copy)]
struct ManualTime {
    /// Milliseconds since the epoch.
    wall: i64,
    monotonic: Duration,
}

/// Instant to sleep until. The alarm is due at that instant, or after the time that was left until
/// then when it was set. The latter comes first if the clock is set back: no timer waits for the
/// clock to catch up.
#[derive(Debug, Clone, Copy)]
pub struct Alarm {
    /// Instant on the wall clock.
    pub at: Timestamp,
    /// Monotonic time at which the alarm is due at the latest.
    pub latest: Duration,
}

impl Clock {
    /// Returns the system's clock.
    pub fn system() -> Self {
        Self(Source::System {
            started: Instant::now(),
        })
    }

    /// Creates a clock that stands at `start` until [`Clock::advance`] moves it.
    pub fn manual(start: Timestamp) -> Self {
        // An arbitrary start, as with the system's clock: only differences count.
        let monotonic = Duration::from_millis(u64::try_from(start.millis()).unwrap_or(0));
        Self(Source::Manual(Arc::new(watch::Sender::new(ManualTime {
            wall: start.millis(),
            monotonic,
        }))))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(match &self.0 {
            Source::System { .. } => {
                // A clock before 1970 counts as 1970.
                let since = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                // Overflows in 292 million years.
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }
            Source::Manual(now) => now.borrow().wall,
        })
    }

    /// Returns the monotonic time, for measuring durations; setting the wall clock does not change
    /// it.
    pub fn monotonic(&self) -> Duration {
        match &self.0 {
            Source::System { started } => started.elapsed(),
            Source::Manual(now) => now.borrow().monotonic,
        }
    }

    /// Advances a manual clock and wakes sleepers whose deadline has passed. Does nothing to the
    /// system's clock.
    pub fn advance(&self, span: Duration) {
        if let Source::Manual(now) = &self.0 {
            let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
            now.send_modify(|now| {
                now.wall = now.wall.saturating_add(millis);
                // Both move, as they do when time passes.
                now.monotonic += span;
            });
        }
    }

    /// Steps a manual clock forward, or back if `millis` is negative, as an operator or NTP does:
    /// no time passes. Does nothing to the system's clock.
    pub fn step(&self, millis: i64) {
        if let Source::Manual(now) = &self.0 {
            now.send_modify(|now| now.wall = now.wall.saturating_add(millis));
        }
    }

    /// Returns an alarm for the instant `at`, set now.
    pub fn alarm(&self, at: Timestamp) -> Alarm {
        let (now, monotonic) = match &self.0 {
            Source::System { .. } => (self.now(), self.monotonic()),
            // A single read, so that no step or advance comes between the two values.
            Source::Manual(time) => {
                let time = *time.borrow();
                (Timestamp::from_millis(time.wall), time.monotonic)
            }
        };
        Alarm {
            at,
            // From the monotonic clock, which a step of the wall clock does not move.
            latest: monotonic.saturating_add(at.since(now)),
        }
    }

    /// Waits until the alarm is due.
    pub async fn sleep(&self, alarm: Alarm) {
        match &self.0 {
            Source::System { .. } => loop {
                // Computed again after each nap, since the wall clock may have been set.
                let left = alarm
                    .at
                    .since(self.now())
                    .min(alarm.latest.saturating_sub(self.monotonic()));
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_NAP)).await;
            },
            Source::Manual(now) => {
                let is_due = |now: &ManualTime| {
                    now.wall >= alarm.at.millis() || now.monotonic >= alarm.latest
                };
                // Fails only if the clock was dropped, so that nothing can move it anymore.
                let _ = now.subscribe().wait_for(is_due).await;
            }
        }
    }

    /// Sleeps until an alarm for `deadline`, set now, is due.
    pub async fn sleep_until(&self, deadline: Timestamp) {
        self.sleep(self.alarm(deadline)).await;
    }

    /// Sleeps until [`Clock::monotonic`] reaches `reading`, whatever the wall clock shows.
    pub async fn sleep_until_reading(&self, reading: Duration) {
        self.sleep(Alarm {
            // The wall clock never reaches it.
            at: Timestamp::from_millis(i64::MAX),
            latest: reading,
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for a woken sleeper.
    async fn woken(sleeper: tokio::task::JoinHandle<()>) {
        tokio::time::timeout(Duration::from_secs(60), sleeper)
            .await
            .expect("it was woken")
            .unwrap();
    }

    #[tokio::test]
    async fn a_sleeper_by_the_monotonic_reading_is_not_woken_by_a_step() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let reading = clock.monotonic() + Duration::from_secs(5);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until_reading(reading).await }
        });
        tokio::task::yield_now().await;
        clock.step(3_600_000);
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(5));
        woken(sleeper).await;
    }

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
        woken(sleeper).await;
        assert_eq!(clock.now(), deadline);
    }

    #[tokio::test]
    async fn a_sleeper_waits_no_longer_when_the_clock_is_set_back() {
        let clock = Clock::manual(Timestamp::from_millis(1_000_000));
        let deadline = clock.now().after(Duration::from_secs(5));
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(deadline).await }
        });
        tokio::task::yield_now().await;
        clock.step(-500_000);
        clock.advance(Duration::from_secs(4));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        woken(sleeper).await;
        assert_eq!(clock.now(), Timestamp::from_millis(505_000));
    }

    #[tokio::test]
    async fn an_alarm_is_set_when_it_is_made_and_not_when_the_sleep_begins() {
        let clock = Clock::manual(Timestamp::from_millis(1_000_000));
        let alarm = clock.alarm(clock.now().after(Duration::from_secs(5)));
        clock.step(-500_000);
        clock.advance(Duration::from_secs(5));
        tokio::time::timeout(Duration::from_secs(60), clock.sleep(alarm))
            .await
            .unwrap();
    }

    #[test]
    fn a_step_moves_the_time_of_day_and_an_advance_the_monotonic_time_too() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let before = clock.monotonic();
        clock.step(60_000);
        assert_eq!((clock.now().millis(), clock.monotonic()), (61_000, before));
        clock.advance(Duration::from_secs(2));
        assert_eq!(
            (clock.now().millis(), clock.monotonic()),
            (63_000, before + Duration::from_secs(2))
        );
    }

    #[test]
    fn the_system_clock_cannot_be_moved() {
        let clock = Clock::system();
        clock.step(-3_600_000);
        clock.advance(Duration::from_secs(3_600));
        let real = Timestamp::from_millis(
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_millis()
                .try_into()
                .unwrap(),
        );
        assert!(real.since(clock.now()) < Duration::from_secs(60));
        assert!(clock.now().since(real) < Duration::from_secs(60));
    }
}
