//! Rate limits on the monotonic clock, and throttles, which allow something once per interval, such
//! as a log line that clients cause.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::ops::Add;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;

use crate::Clock;

/// Up to this number, idle keys are not removed.
// Below it, the memory is not worth a scan.
const FEW_KEYS: usize = 1_024;

/// Sustained rate and burst. 0 counts as 1.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Sustained number per second.
    pub per_second: u32,
    /// Number at once.
    pub burst: u32,
}

impl Rate {
    /// Returns a rate and burst multiplied by `factor`.
    #[must_use]
    pub const fn times(self, factor: u32) -> Self {
        Self {
            per_second: self.per_second.saturating_mul(factor),
            burst: self.burst.saturating_mul(factor),
        }
    }

    fn quota(self) -> Quota {
        // Settings of 0 would block everything.
        let positive = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        // A generic cell rate algorithm: no window at whose start all limits are full again.
        Quota::per_second(positive(self.per_second)).allow_burst(positive(self.burst))
    }
}

/// A [`Clock`]'s monotonic time.
#[derive(Debug, Clone)]
// Through the injected clock, so that tests control rates.
struct MonotonicClock(Clock);

impl governor::clock::Clock for MonotonicClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.monotonic())
    }
}

/// Rate limit for one thing.
pub struct RateLimit(RateLimiter<NotKeyed, InMemoryState, MonotonicClock, NoOpMiddleware<Nanos>>);

impl RateLimit {
    /// Creates an unused limit.
    pub fn new(clock: &Clock, rate: Rate) -> Self {
        Self(RateLimiter::direct_with_clock(
            rate.quota(),
            MonotonicClock(clock.clone()),
        ))
    }

    /// Consumes `number` units. Returns whether they were available; more than the burst never are.
    pub fn take(&self, number: u32) -> bool {
        // The outer error means more than the burst, the inner one not now.
        NonZeroU32::new(number).is_none_or(|number| matches!(self.0.check_n(number), Ok(Ok(()))))
    }
}

/// Rate limit per key. Keys with their full burst are removed.
pub struct RateLimits<K: Hash + Eq + Clone> {
    limiter: RateLimiter<K, DashMapStateStore<K>, MonotonicClock, NoOpMiddleware<Nanos>>,
    /// Calls until idle keys are removed.
    before_forgetting: AtomicUsize,
}

impl<K: Hash + Eq + Clone> RateLimits<K> {
    /// Creates unused limits.
    pub fn new(clock: &Clock, rate: Rate) -> Self {
        let limiter = RateLimiter::dashmap_with_clock(rate.quota(), MonotonicClock(clock.clone()));
        Self {
            limiter,
            before_forgetting: AtomicUsize::new(FEW_KEYS),
        }
    }

    /// Consumes one unit for a key.
    ///
    /// # Errors
    /// Returns the time to wait.
    pub fn check(&self, key: &K) -> Result<(), Duration> {
        self.forget_idle();
        self.limiter
            .check_key(key)
            // For `Retry-After`.
            .map_err(|until| until.wait_time_from(self.limiter.clock().now()))
    }

    /// Consumes `number` units for a key. Returns whether they were available; more than the burst never are.
    pub fn take(&self, key: &K, number: u32) -> bool {
        self.forget_idle();
        NonZeroU32::new(number)
            .is_none_or(|number| matches!(self.limiter.check_key_n(key, number), Ok(Ok(()))))
    }

    /// Removes idle keys, once per as many calls as keys were left the last time. So there are
    /// never many more keys than in use, and the cost per call is constant.
    fn forget_idle(&self) {
        // Concurrent calls may go below 0, which wraps around, until the counter is set again.
        if self.before_forgetting.fetch_sub(1, Ordering::Relaxed) == 0 {
            // Removes keys with a full burst, which behave like unknown ones.
            self.limiter.retain_recent();
            self.before_forgetting
                // Proportional to the keys that are left, so the scan's cost is spread over as many calls.
                .store(self.limiter.len().max(FEW_KEYS), Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RateLimit")
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for RateLimits<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RateLimits")
    }
}

/// Allows something once per interval, in total or per key. Times must come from one monotonic
/// clock.
#[derive(Debug)]
pub struct Throttle<K = (), T = Instant> {
    interval: Duration,
    most_keys: usize,
    /// Permissions within the interval, with their times.
    allowed: Mutex<HashMap<K, T>>,
}

impl<T: Copy + PartialOrd + Add<Duration, Output = T>> Throttle<(), T> {
    /// Creates an unused throttle.
    pub fn new(interval: Duration) -> Self {
        // All calls share one key.
        Self::by_key(interval, 1)
    }

    /// Returns whether it is allowed now, and starts an interval if so.
    pub fn allow(&self, now: T) -> bool {
        self.allow_key((), now)
    }
}

impl<K: Hash + Eq, T: Copy + PartialOrd + Add<Duration, Output = T>> Throttle<K, T> {
    /// Creates an unused throttle that allows at most `most_keys` keys per interval.
    pub fn by_key(interval: Duration, most_keys: usize) -> Self {
        Self {
            interval,
            most_keys,
            allowed: Mutex::default(),
        }
    }

    /// Returns whether it is allowed for a key now, and starts an interval if so.
    pub fn allow_key(&self, key: K, now: T) -> bool {
        let mut allowed = self.allowed.lock();
        // Before the count, so that expired keys neither take memory nor block new ones.
        allowed.retain(|_, at| now < *at + self.interval);
        let is_allowed = allowed.len() < self.most_keys && !allowed.contains_key(&key);
        if is_allowed {
            // A refused call does not extend the interval.
            allowed.insert(key, now);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    const RATE: Rate = Rate {
        per_second: 2,
        burst: 10,
    };

    fn clock() -> Clock {
        Clock::manual(Timestamp::from_millis(0))
    }

    #[test]
    fn a_key_has_its_burst_and_its_rate_and_is_told_how_long_to_wait() {
        let clock = clock();
        let limits = RateLimits::new(&clock, RATE);
        assert_eq!(
            (0..100).filter(|_| limits.check(&"one").is_ok()).count(),
            10
        );
        assert_eq!(limits.check(&"one"), Err(Duration::from_millis(500)));
        assert_eq!(limits.check(&"another"), Ok(()));
        clock.step(3_600_000);
        assert!(
            limits.check(&"one").is_err(),
            "a step of the clock is no time"
        );
        clock.advance(Duration::from_secs(1));
        assert_eq!((0..100).filter(|_| limits.check(&"one").is_ok()).count(), 2);
    }

    #[test]
    fn several_are_taken_at_once_or_none() {
        let clock = clock();
        let (limit, limits) = (RateLimit::new(&clock, RATE), RateLimits::new(&clock, RATE));
        let takes: [&dyn Fn(u32) -> bool; 2] = [&|number| limit.take(number), &|number| {
            limits.take(&"key", number)
        }];
        for take in takes {
            assert!(!take(11) && take(0) && take(8) && !take(3) && take(2) && take(0) && !take(1));
        }
        clock.advance(Duration::from_secs(1));
        assert!(limit.take(2) && limits.take(&"key", 2));
    }

    #[test]
    fn a_rate_of_zero_is_one() {
        let limit = RateLimit::new(
            &clock(),
            Rate {
                per_second: 0,
                burst: 0,
            }
            .times(3),
        );
        assert!(limit.take(1) && !limit.take(1));
    }

    #[test]
    fn keys_that_have_their_full_burst_again_are_forgotten_and_others_are_not() {
        let clock = clock();
        let limits = RateLimits::new(&clock, RATE);
        assert!(limits.take(&u32::MAX, 10));
        for key in 0..100_000 {
            clock.advance(Duration::from_millis(1));
            assert!(limits.take(&key, 1));
            if key == 4_000 {
                assert!(!limits.take(&u32::MAX, 9), "it has 8 again");
            }
        }
        // Each key is kept for a second.
        assert!(
            limits.limiter.len() <= 1_000 + FEW_KEYS + 2,
            "{}",
            limits.limiter.len()
        );
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn something_is_allowed_once_in_an_interval() {
        let throttle = Throttle::new(MINUTE);
        let allowed: Vec<_> = (0..180)
            .filter(|second| throttle.allow(Duration::from_secs(*second)))
            .collect();
        assert_eq!(allowed, [0, 60, 120]);
    }

    #[test]
    fn each_key_is_allowed_on_its_own_and_a_bounded_number_of_keys() {
        let (throttle, begin) = (Throttle::by_key(MINUTE, 100), Instant::now());
        let count = |key: &str, seconds: std::ops::Range<u64>| {
            let at = |second| begin + Duration::from_secs(second);
            seconds
                .filter(|second| throttle.allow_key(key.to_owned(), at(*second)))
                .count()
        };
        assert_eq!(count("mallory", 0..90), 2);
        assert_eq!(count("alice", 90..91), 1);
        assert_eq!(
            (0..200)
                .map(|number| count(&number.to_string(), 90..91))
                .sum::<usize>(),
            98
        );
        assert_eq!(count("bob", 150..151), 1, "the others are forgotten");
    }
}
