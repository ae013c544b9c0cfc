//! Queue per key, such as a project or room, served round robin.
//!
//! A key's items keep their order. Between two such items, each other key is served at most once,
//! however many items it has. Keys without items take no memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// Items by key.
#[derive(Debug)]
pub struct RoundRobin<K, T> {
    /// Each key's queued items, by number. No queue is empty.
    // A `BTreeMap` keeps the order and finds a number, when a waiting caller gives up.
    queues: HashMap<K, BTreeMap<u64, T>>,
    /// The same keys, in the order in which they are served.
    turns: VecDeque<K>,
    /// Next item number.
    next: u64,
}

impl<K, T> Default for RoundRobin<K, T> {
    fn default() -> Self {
        Self {
            queues: HashMap::new(),
            turns: VecDeque::new(),
            next: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, T> RoundRobin<K, T> {
    /// Appends an item to its key's queue. Returns its unique number.
    pub fn push(&mut self, key: &K, item: T) -> u64 {
        // Never reused, so a stale number cannot remove another item.
        let number = self.next;
        self.next += 1;
        if let Some(queue) = self.queues.get_mut(key) {
            queue.insert(number, item);
        } else {
            self.queues
                .insert(key.clone(), BTreeMap::from([(number, item)]));
            // A new key is served after all others.
            self.turns.push_back(key.clone());
        }
        number
    }

    /// Returns whether a key has items.
    pub fn has(&self, key: &K) -> bool {
        self.queues.contains_key(key)
    }

    /// Returns a key's item with this number, if it is queued.
    pub fn get(&self, key: &K, number: u64) -> Option<&T> {
        self.queues.get(key)?.get(&number)
    }

    /// Removes a key's item with this number, if it is queued.
    pub fn remove(&mut self, key: &K, number: u64) -> Option<T> {
        let queue = self.queues.get_mut(key)?;
        let item = queue.remove(&number);
        if queue.is_empty() {
            self.queues.remove(key);
            // Linear, but only when a key's last item is removed from the middle.
            self.turns.retain(|other| other != key);
        }
        item
    }

    /// Removes the next key's first item.
    pub fn pop(&mut self) -> Option<(K, T)> {
        self.pop_of(|_| true)
    }

    /// Removes the first item for the next `eligible` key. Other keys keep their positions.
    pub fn pop_of(&mut self, eligible: impl Fn(&K) -> bool) -> Option<(K, T)> {
        let position = self.turns.iter().position(eligible)?;
        // Keys in front of it were not eligible, and keep their positions.
        let key = self.turns.remove(position)?;
        let queue = self.queues.get_mut(&key)?;
        let (_, item) = queue.pop_first()?;
        if queue.is_empty() {
            self.queues.remove(&key);
        } else {
            // At the end: every other key is served before this one again.
            self.turns.push_back(key.clone());
        }
        Some((key, item))
    }

    /// Returns how many keys have items.
    pub fn keys(&self) -> usize {
        self.queues.len()
    }

    /// Returns whether no key has items.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const KEYS: usize = 4;

    #[derive(Debug, Clone)]
    enum Step {
        Push(usize),
        /// Removes the next eligible item.
        Pop([bool; KEYS]),
        /// Removes an item, by its position modulo the queue's length.
        Remove(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..KEYS).prop_map(Step::Push),
            2 => Just(Step::Pop([true; KEYS])),
            1 => any::<[bool; KEYS]>().prop_map(Step::Pop),
            1 => any::<usize>().prop_map(Step::Remove),
        ];
        vec(step, 1..200)
    }

    /// The queue, and its model.
    #[derive(Default)]
    struct Fixture {
        queue: RoundRobin<usize, usize>,
        /// Queued items: key, number and value, in the order in which they were added.
        waiting: Vec<(usize, u64, usize)>,
        /// Keys that were served while another one waited, could have been served, and was not.
        overtaken: BTreeSet<(usize, usize)>,
    }

    impl Fixture {
        fn run(&mut self, value: usize, step: &Step) {
            match *step {
                Step::Push(key) => {
                    let number = self.queue.push(&key, value);
                    assert_eq!(self.queue.get(&key, number), Some(&value));
                    self.waiting.push((key, number, value));
                }
                Step::Pop(eligible) => self.pop(eligible),
                Step::Remove(index) if !self.waiting.is_empty() => {
                    let (key, number, value) = self.waiting.remove(index % self.waiting.len());
                    assert_eq!(
                        self.queue.remove(&(key + 1), number),
                        None,
                        "it belongs to another key"
                    );
                    assert_eq!(self.queue.remove(&key, number), Some(value));
                    assert_eq!(self.queue.remove(&key, number), None);
                }
                Step::Remove(_) => {}
            }
            let keys: HashSet<usize> = self.waiting.iter().map(|(key, ..)| *key).collect();
            self.overtaken.retain(|(waiter, _)| keys.contains(waiter));
            assert_eq!(
                (self.queue.keys(), self.queue.turns.len()),
                (keys.len(), keys.len())
            );
            assert!((0..KEYS).all(|key| self.queue.has(&key) == keys.contains(&key)));
            assert_eq!(self.queue.is_empty(), keys.is_empty());
        }

        fn pop(&mut self, eligible: [bool; KEYS]) {
            let Some((key, value)) = self.queue.pop_of(|key| eligible[*key]) else {
                return assert!(self.waiting.iter().all(|(key, ..)| !eligible[*key]));
            };
            assert!(eligible[key]);
            let first = self
                .waiting
                .iter()
                .position(|(waiter, ..)| *waiter == key)
                .unwrap();
            assert_eq!(self.waiting.remove(first).2, value);
            self.overtaken.retain(|(waiter, _)| *waiter != key);
            let waiters: HashSet<usize> = self.waiting.iter().map(|(waiter, ..)| *waiter).collect();
            for waiter in waiters
                .into_iter()
                .filter(|waiter| *waiter != key && eligible[*waiter])
            {
                assert!(
                    self.overtaken.insert((waiter, key)),
                    "{waiter} waits for {key} twice"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn keys_take_turns_the_items_of_each_keep_their_order_and_keys_without_any_are_forgotten(steps in steps()) {
            let mut fixture = Fixture::default();
            steps.iter().enumerate().for_each(|(value, step)| fixture.run(value, step));
        }
    }
}
