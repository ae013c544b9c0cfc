//! A queue for each project, room or other key, whose turns alternate.
//!
//! What waits for one key keeps its order, and waits for at most one item of each other key between two of its own, however many of
//! them wait. A key for which nothing waits takes no memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// What waits, by key.
#[derive(Debug)]
pub struct RoundRobin<K, T> {
    /// The items of each key by their numbers. No key is without items.
    queues: HashMap<K, BTreeMap<u64, T>>,
    /// The same keys, by their next turn.
    turns: VecDeque<K>,
    /// The number of the next item.
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
    /// Adds an item behind those of its key. Returns its number, which no other item has.
    pub fn push(&mut self, key: &K, item: T) -> u64 {
        let number = self.next;
        self.next += 1;
        if let Some(queue) = self.queues.get_mut(key) {
            queue.insert(number, item);
        } else {
            self.queues
                .insert(key.clone(), BTreeMap::from([(number, item)]));
            self.turns.push_back(key.clone());
        }
        number
    }

    /// Returns whether something waits for a key.
    pub fn has(&self, key: &K) -> bool {
        self.queues.contains_key(key)
    }

    /// Returns the item of a key with this number, if it waits.
    pub fn get(&self, key: &K, number: u64) -> Option<&T> {
        self.queues.get(key)?.get(&number)
    }

    /// Removes the item of a key with this number, if it waits.
    pub fn remove(&mut self, key: &K, number: u64) -> Option<T> {
        let queue = self.queues.get_mut(key)?;
        let item = queue.remove(&number);
        if queue.is_empty() {
            self.queues.remove(key);
            self.turns.retain(|other| other != key);
        }
        item
    }

    /// Takes the first item of the key whose turn it is.
    pub fn pop(&mut self) -> Option<(K, T)> {
        self.pop_of(|_| true)
    }

    /// Takes the first item of that key among `eligible` ones whose turn comes first. The others keep their turns.
    pub fn pop_of(&mut self, eligible: impl Fn(&K) -> bool) -> Option<(K, T)> {
        let position = self.turns.iter().position(eligible)?;
        let key = self.turns.remove(position)?;
        let queue = self.queues.get_mut(&key)?;
        let (_, item) = queue.pop_first()?;
        if queue.is_empty() {
            self.queues.remove(&key);
        } else {
            self.turns.push_back(key.clone());
        }
        Some((key, item))
    }

    /// Returns the number of keys for which something waits.
    pub fn keys(&self) -> usize {
        self.queues.len()
    }

    /// Returns whether nothing waits.
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
        /// Takes the next item of the keys that are eligible.
        Pop([bool; KEYS]),
        /// Removes an item, counted round those that wait.
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

    /// The queue, and what must hold of it.
    #[derive(Default)]
    struct World {
        queue: RoundRobin<usize, usize>,
        /// The items that wait: key, number and value, in the order in which they were added.
        waiting: Vec<(usize, u64, usize)>,
        /// Which keys were served since another one waits, could have been served, and was not.
        overtaken: BTreeSet<(usize, usize)>,
    }

    impl World {
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
            let mut world = World::default();
            steps.iter().enumerate().for_each(|(value, step)| world.run(value, step));
        }
    }
}
