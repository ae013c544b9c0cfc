//! The webhooks that were taken lately, so that one which comes again changes nothing.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ids that are remembered. LiveKit sends an event again within seconds or not at all.
const REMEMBERED: usize = 10_000;

/// Ids of webhooks: those under way, and those whose reports are durable.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Ids>);

#[derive(Debug, Default)]
struct Ids {
    under_way: HashSet<Box<str>>,
    taken: HashSet<Box<str>>,
    /// The same as `taken`, the oldest first.
    order: VecDeque<Box<str>>,
}

/// How an id is known.
#[derive(Debug)]
pub(super) enum Begun<'a> {
    /// It is not; it is under way until the turn ends.
    New(Turn<'a>),
    /// Somebody is at it.
    UnderWay,
    /// It was taken.
    Taken,
}

/// An id under way. Dropped, it is as if it had never come; so a receiver that is given up on gets it again.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    recent: &'a Recent,
    id: Box<str>,
    durable: bool,
}

impl Turn<'_> {
    /// What it reported is durable.
    pub fn taken(mut self) {
        self.durable = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.recent.end(&self.id, self.durable);
    }
}

impl Recent {
    /// Looks an id up and, when it is new, begins with it.
    pub fn begin(&self, id: &str) -> Begun<'_> {
        let mut ids = self.lock();
        if ids.taken.contains(id) {
            Begun::Taken
        } else if ids.under_way.insert(id.into()) {
            Begun::New(Turn { recent: self, id: id.into(), durable: false })
        } else {
            Begun::UnderWay
        }
    }

    fn end(&self, id: &str, durable: bool) {
        let mut ids = self.lock();
        ids.under_way.remove(id);
        if durable && ids.taken.insert(id.into()) {
            ids.order.push_back(id.into());
            if ids.order.len() > REMEMBERED
                && let Some(oldest) = ids.order.pop_front()
            {
                ids.taken.remove(&oldest);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ids> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin<'a>(recent: &'a Recent, id: &str) -> Turn<'a> {
        match recent.begin(id) {
            Begun::New(turn) => turn,
            known => panic!("{id} is known: {known:?}"),
        }
    }

    #[test]
    fn what_was_not_durable_is_new_when_it_comes_again() {
        let recent = Recent::default();
        let turn = begin(&recent, "EV_1");
        assert!(matches!(recent.begin("EV_1"), Begun::UnderWay));
        drop(turn);
        begin(&recent, "EV_1").taken();
        assert!(matches!(recent.begin("EV_1"), Begun::Taken));
    }

    #[test]
    fn only_so_many_are_remembered_the_oldest_giving_way() {
        let recent = Recent::default();
        for number in 0..=REMEMBERED {
            begin(&recent, &number.to_string()).taken();
        }
        drop(begin(&recent, "0"));
        assert!(matches!(recent.begin("1"), Begun::Taken));
    }
}
