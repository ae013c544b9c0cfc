//! The server's promises, each checked against requests, responses, received webhooks and records. Every check returns its violations, as
//! sentences.

mod acknowledged;
mod bans;
pub mod cluster;
mod codes;
mod deadlines;
mod endpoints;
mod erasures;
mod events;
mod history;
mod possible;
mod webhooks;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cluster::{Evidence, availability, calls, epochs};
use serde_json::Value;

use crate::journal::Entry;
use crate::receivers::Receiver;
use crate::records::{Records, text};
use crate::server::Lifetime;

/// Checks a server alone.
pub fn of_server(
    entries: &[Entry],
    receivers: &[Receiver],
    records: &Records,
    lifetimes: &[Lifetime],
) -> Vec<String> {
    let mut violations = promises(entries, receivers, records, lifetimes);
    violations.extend(acknowledged::joins_have_a_session(entries, records));
    violations
}

/// Checks a cluster.
pub fn of_cluster(
    evidence: &Evidence,
    receivers: &[Receiver],
    records: &Records,
    lifetimes: &[Lifetime],
) -> Vec<String> {
    let mut violations = promises(&evidence.entries, receivers, records, lifetimes);
    violations.extend(availability::requests_succeed(evidence));
    violations.extend(availability::reads_find_what_was_written(evidence));
    violations.extend(availability::changes_return_in_time(evidence));
    violations.extend(availability::replacements_are_hardly_noticed(evidence));
    violations.extend(calls::calls_go_on(evidence, records));
    violations.extend(calls::participants_have_a_session(evidence, records));
    violations.extend(calls::open_rooms_stay_open(evidence, records));
    violations.extend(calls::livekit_webhooks_are_accepted(evidence));
    violations.extend(epochs::each_epoch_has_one_writer(evidence));
    violations.extend(epochs::a_replaced_node_does_nothing(evidence, records));
    violations.extend(epochs::the_lease_moves_as_expected(evidence));
    violations.extend(epochs::no_process_ends_by_itself(evidence));
    violations.extend(epochs::deliveries_are_marked_once(evidence));
    violations.extend(epochs::rounds_saw_nothing_wrong(evidence));
    violations
}

/// Promises common to servers and clusters.
fn promises(
    entries: &[Entry],
    receivers: &[Receiver],
    records: &Records,
    lifetimes: &[Lifetime],
) -> Vec<String> {
    let mut violations = Vec::new();
    violations.extend(acknowledged::rooms_and_templates_exist_once(
        entries, records,
    ));
    violations.extend(acknowledged::settings_are_kept(entries, records));
    violations.extend(acknowledged::nothing_was_made_up(entries, records));
    violations.extend(acknowledged::a_key_has_one_response(entries));
    violations.extend(codes::uses_are_counted_within_the_limit(entries, records));
    violations.extend(codes::disabled_codes_stay_disabled(entries, records));
    violations.extend(bans::bans_apply_until_they_are_lifted(entries, records));
    violations.extend(bans::revoked_tokens_open_no_session(entries, records));
    violations.extend(erasures::no_record_shows_an_erased_identity(
        entries, records,
    ));
    violations.extend(erasures::other_identities_stay(entries, records));
    violations.extend(history::ids_grow(records));
    violations.extend(history::deliveries_are_the_history(records));
    violations.extend(history::pages_are_parts_of_the_history(entries, records));
    violations.extend(deadlines::empty_rooms_ended_in_time(
        entries, records, lifetimes,
    ));
    violations.extend(events::rooms_start_and_finish_once(records));
    violations.extend(events::joins_and_leaves_are_paired(records));
    violations.extend(events::tracks_are_paired(records));
    for receiver in receivers {
        violations.extend(webhooks::what_is_delivered_was_accepted(receiver, records));
        violations.extend(webhooks::nothing_is_posted_again_after_it_was_accepted(
            receiver,
        ));
        violations.extend(endpoints::changes_last(entries, receiver, records));
        violations.extend(endpoints::webhooks_are_signed_with_acknowledged_secrets(
            entries, receiver,
        ));
        if receiver.accepts_all {
            violations.extend(webhooks::a_rooms_events_keep_their_order(receiver, records));
        }
    }
    violations
}

/// Occurrences by text.
fn count<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts
}

/// Returns the events, oldest first: the payloads delivered to one receiver, since each receiver gets them all.
fn events(records: &Records) -> Vec<&Value> {
    let Some(first) = records.deliveries.first() else {
        return Vec::new();
    };
    let of_first = records
        .deliveries
        .iter()
        .filter(|delivery| delivery["endpoint_id"] == first["endpoint_id"]);
    of_first.map(|delivery| &delivery["payload"]).collect()
}

/// Returns the events by room, in order.
fn events_by_room(records: &Records) -> BTreeMap<&str, Vec<&Value>> {
    let mut rooms: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in events(records) {
        rooms.entry(text(event, "room")).or_default().push(event);
    }
    rooms
}
