//! How many there are of each, for limits by client, participant or project.

use std::collections::HashMap;
use std::hash::Hash;

/// A number for each key. A key whose number is 0 is not kept.
#[derive(Debug, Clone)]
pub struct Counts<K>(HashMap<K, usize>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Counts<K> {
    /// Returns the number of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// Adds 1 to the number of a key.
    pub fn add(&mut self, key: K) {
        *self.0.entry(key).or_default() += 1;
    }

    /// Subtracts 1 from the number of a key, unless it is 0.
    pub fn subtract(&mut self, key: &K) {
        match self.0.get_mut(key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.0.remove(key);
            }
        }
    }

    /// Returns the sum of all numbers.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Returns whether all numbers are 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_as_long_as_its_number_is_not_0() {
        let mut counts = Counts::default();
        ["a", "b", "a"].into_iter().for_each(|key| counts.add(key));
        assert_eq!((counts.get(&"a"), counts.get(&"b"), counts.get(&"c"), counts.total()), (2, 1, 0, 3));
        counts.subtract(&"a");
        counts.subtract(&"b");
        counts.subtract(&"c");
        assert_eq!((counts.total(), counts.is_empty()), (1, false));
        counts.subtract(&"a");
        assert!(counts.is_empty());
    }
}
