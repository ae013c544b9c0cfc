//! Counters per key, for limits per client, participant or project.

use std::collections::HashMap;
use std::hash::Hash;

/// Counters per key. Keys with 0 take no memory.
#[derive(Debug, Clone)]
pub struct Counts<K> {
    numbers: HashMap<K, usize>,
    // Kept, so that a limit costs no sum over all keys.
    total: usize,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            total: 0,
        }
    }
}

impl<K: Eq + Hash> Counts<K> {
    /// Returns a key's counter.
    pub fn get(&self, key: &K) -> usize {
        self.numbers.get(key).copied().unwrap_or_default()
    }

    /// Adds 1 to a key's counter.
    pub fn add(&mut self, key: K) {
        self.add_many(key, 1);
    }

    /// Adds to a key's counter.
    pub fn add_many(&mut self, key: K, number: usize) {
        // Otherwise a key with 0 would stay in the map.
        if number > 0 {
            *self.numbers.entry(key).or_default() += number;
            self.total += number;
        }
    }

    /// Subtracts 1 from a key's counter, unless it is 0.
    pub fn subtract(&mut self, key: &K) {
        self.subtract_many(key, 1);
    }

    /// Subtracts from a key's counter, down to 0.
    pub fn subtract_many(&mut self, key: &K, number: usize) {
        let Some(count) = self.numbers.get_mut(key) else {
            return;
        };
        // Subtracting more than was added would make the total wrong.
        let number = number.min(*count);
        *count -= number;
        self.total -= number;
        // Keys come from clients: without removal, the map would grow with every address seen.
        if *count == 0 {
            self.numbers.remove(key);
        }
    }

    /// Returns the sum of all counters.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Returns how many keys have a counter above 0.
    pub fn keys(&self) -> usize {
        self.numbers.len()
    }

    /// Returns whether all counters are 0.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_as_long_as_its_number_is_not_0() {
        let mut counts = Counts::default();
        ["a", "b", "a"].into_iter().for_each(|key| counts.add(key));
        assert_eq!(
            (
                counts.get(&"a"),
                counts.get(&"b"),
                counts.get(&"c"),
                counts.total()
            ),
            (2, 1, 0, 3)
        );
        counts.subtract(&"a");
        counts.subtract(&"b");
        counts.subtract(&"c");
        assert_eq!((counts.total(), counts.is_empty()), (1, false));
        counts.subtract(&"a");
        assert!(counts.is_empty());
    }

    #[test]
    fn a_number_changes_by_many_and_not_below_0() {
        let mut counts = Counts::default();
        counts.add_many("a", 5);
        counts.add_many("b", 0);
        assert_eq!((counts.keys(), counts.total()), (1, 5));
        counts.subtract_many(&"a", 2);
        assert_eq!((counts.get(&"a"), counts.total()), (3, 3));
        counts.subtract_many(&"a", 4);
        assert_eq!((counts.keys(), counts.total()), (0, 0));
    }
}
