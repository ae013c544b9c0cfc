//! What happens once in an interval, such as a line in the log that clients cause.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Add;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Allows something once in an interval: in all, or for each key. Times are of any one clock that never goes back.
#[derive(Debug)]
pub struct Throttle<K = (), T = Instant> {
    interval: Duration,
    most_keys: usize,
    /// When it was allowed within the interval.
    allowed: Mutex<HashMap<K, T>>,
}

impl<T: Copy + PartialOrd + Add<Duration, Output = T>> Throttle<(), T> {
    /// Nothing was allowed yet.
    pub fn new(interval: Duration) -> Self {
        Self::by_key(interval, 1)
    }

    /// Returns whether it is allowed now.
    pub fn allow(&self, now: T) -> bool {
        self.allow_key((), now)
    }
}

impl<K: Hash + Eq, T: Copy + PartialOrd + Add<Duration, Output = T>> Throttle<K, T> {
    /// Nothing was allowed yet. In an interval, so many keys are allowed at the most.
    pub fn by_key(interval: Duration, most_keys: usize) -> Self {
        Self {
            interval,
            most_keys,
            allowed: Mutex::default(),
        }
    }

    /// Returns whether it is allowed for a key now.
    pub fn allow_key(&self, key: K, now: T) -> bool {
        let mut allowed = self.allowed.lock();
        allowed.retain(|_, at| now < *at + self.interval);
        let is_allowed = allowed.len() < self.most_keys && !allowed.contains_key(&key);
        if is_allowed {
            allowed.insert(key, now);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
