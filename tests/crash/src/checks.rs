//! The promises that the server makes, each checked over what was asked, answered, received and recorded. Every check returns
//! the violations that it finds, as sentences.

mod acknowledged;
mod codes;
mod deadlines;
mod events;
mod webhooks;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::journal::Entry;
use crate::receivers::Receiver;
use crate::records::{Records, text};
use crate::server::Lifetime;

/// Runs every check.
pub fn all(entries: &[Entry], receivers: &[Receiver], records: &Records, lifetimes: &[Lifetime]) -> Vec<String> {
    let mut violations = Vec::new();
    violations.extend(acknowledged::rooms_and_templates_exist_once(entries, records));
    violations.extend(acknowledged::nothing_was_made_up(entries, records));
    violations.extend(acknowledged::a_key_has_one_response(entries));
    violations.extend(acknowledged::joins_have_a_session(entries, records));
    violations.extend(codes::uses_are_counted_within_the_limit(entries, records));
    violations.extend(deadlines::empty_rooms_ended_in_time(entries, records, lifetimes));
    violations.extend(events::rooms_start_and_finish_once(records));
    violations.extend(events::joins_and_leaves_are_paired(records));
    violations.extend(events::tracks_are_paired(records));
    for receiver in receivers {
        violations.extend(webhooks::what_is_delivered_was_accepted(receiver, records));
        violations.extend(webhooks::nothing_is_posted_again_after_it_was_accepted(receiver));
        if receiver.accepts_all {
            violations.extend(webhooks::a_rooms_events_keep_their_order(receiver, records));
        }
    }
    violations
}

/// How often each text occurs.
fn count<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts
}

/// The events, oldest first: the payloads of the deliveries to one receiver, since each gets them all.
fn events(records: &Records) -> Vec<&Value> {
    let Some(first) = records.deliveries.first() else { return Vec::new() };
    let of_first = records.deliveries.iter().filter(|delivery| delivery["endpoint_id"] == first["endpoint_id"]);
    of_first.map(|delivery| &delivery["payload"]).collect()
}

/// The events of each room, in order.
fn events_by_room(records: &Records) -> BTreeMap<&str, Vec<&Value>> {
    let mut rooms: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in events(records) {
        rooms.entry(text(event, "room")).or_default().push(event);
    }
    rooms
}
