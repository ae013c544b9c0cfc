//! The ids of webhooks that were handled recently, so that a repeated webhook has no effect.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;

/// Number of ids that are kept. LiveKit repeats an event within seconds or not at all.
const CAPACITY: usize = 10_000;

/// The ids of webhooks that are in progress, and of those that were recorded recently.
#[derive(Debug, Default)]
pub(super) struct WebhookDedup(Mutex<Ids>);

#[derive(Debug, Default)]
struct Ids {
    in_progress: HashSet<Box<str>>,
    recorded: HashSet<Box<str>>,
    /// The ids of `recorded`, oldest first.
    order: VecDeque<Box<str>>,
}

/// What is known of a webhook's id.
#[derive(Debug)]
pub(super) enum DedupState<'a> {
    /// Not seen before, or not recorded then. It is in progress until the ticket is dropped.
    New(DedupTicket<'a>),
    /// Another request with this id is in progress.
    InProgress,
    /// What the webhook reports is durable.
    Recorded,
}

/// Marks an id as in progress. If it is dropped without [`DedupTicket::mark_recorded`], the id counts as new again, so a
/// repetition is handled.
#[derive(Debug)]
pub(super) struct DedupTicket<'a> {
    dedup: &'a WebhookDedup,
    id: Box<str>,
    is_recorded: bool,
}

impl DedupTicket<'_> {
    /// Ends the progress: what the webhook reports is durable.
    pub fn mark_recorded(mut self) {
        self.is_recorded = true;
    }
}

impl Drop for DedupTicket<'_> {
    fn drop(&mut self) {
        self.dedup.end(&self.id, self.is_recorded);
    }
}

impl WebhookDedup {
    /// Looks up an id and marks it as in progress if it is new.
    pub fn begin(&self, id: &str) -> DedupState<'_> {
        let mut ids = self.0.lock();
        if ids.recorded.contains(id) {
            DedupState::Recorded
        } else if ids.in_progress.insert(id.into()) {
            DedupState::New(DedupTicket {
                dedup: self,
                id: id.into(),
                is_recorded: false,
            })
        } else {
            DedupState::InProgress
        }
    }

    fn end(&self, id: &str, is_recorded: bool) {
        let mut ids = self.0.lock();
        ids.in_progress.remove(id);
        if is_recorded && ids.recorded.insert(id.into()) {
            ids.order.push_back(id.into());
            if ids.order.len() > CAPACITY
                && let Some(oldest) = ids.order.pop_front()
            {
                ids.recorded.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin<'a>(dedup: &'a WebhookDedup, id: &str) -> DedupTicket<'a> {
        match dedup.begin(id) {
            DedupState::New(ticket) => ticket,
            known => panic!("{id} is known: {known:?}"),
        }
    }

    #[test]
    fn a_webhook_that_was_not_recorded_is_new_when_it_is_repeated() {
        let dedup = WebhookDedup::default();
        let ticket = begin(&dedup, "EV_1");
        assert!(matches!(dedup.begin("EV_1"), DedupState::InProgress));
        drop(ticket);
        begin(&dedup, "EV_1").mark_recorded();
        assert!(matches!(dedup.begin("EV_1"), DedupState::Recorded));
    }

    #[test]
    fn the_oldest_id_is_dropped_at_capacity() {
        let dedup = WebhookDedup::default();
        for number in 0..=CAPACITY {
            begin(&dedup, &number.to_string()).mark_recorded();
        }
        drop(begin(&dedup, "0"));
        assert!(matches!(dedup.begin("1"), DedupState::Recorded));
    }
}
