//! Each event is delivered at least once, in its room's order, and not again after the server has recorded it.

use std::collections::{BTreeMap, BTreeSet};

use crate::receivers::Receiver;
use crate::records::{Records, text};

/// Every delivery is final; each one marked as delivered was accepted by its receiver.
pub fn what_is_delivered_was_accepted(receiver: &Receiver, records: &Records) -> Vec<String> {
    let received = receiver.received();
    let accepted: BTreeSet<&str> = received
        .iter()
        .filter(|webhook| webhook.accepted)
        .map(|webhook| webhook.id.as_str())
        .collect();
    let own = records
        .deliveries
        .iter()
        .filter(|delivery| text(delivery, "endpoint_id") == receiver.endpoint.id);
    own.filter_map(|delivery| {
        let (id, status) = (text(delivery, "id"), text(delivery, "status"));
        match status {
            "delivered" if accepted.contains(id) => None,
            "delivered" => Some(format!(
                "the delivery {id} is marked as delivered, and its receiver did not accept it"
            )),
            _ if receiver.accepts_all => Some(format!("the delivery {id} is {status}")),
            "failed" => None,
            _ => Some(format!("the delivery {id} is still {status}")),
        }
    })
    .collect()
}

/// A server repeats an accepted delivery only if it was killed before recording the acceptance.
pub fn nothing_is_posted_again_after_it_was_accepted(receiver: &Receiver) -> Vec<String> {
    let mut accepted: BTreeMap<(String, u32), usize> = BTreeMap::new();
    for webhook in receiver
        .received()
        .into_iter()
        .filter(|webhook| webhook.accepted)
    {
        if let Some(lifetime) = webhook.lifetime {
            *accepted.entry((webhook.id, lifetime)).or_default() += 1;
        }
    }
    let again = accepted.into_iter().filter(|(_, times)| *times > 1);
    again
        .map(|((id, _), times)| {
            format!("one server posted the delivery {id} {times} times, which was accepted")
        })
        .collect()
}

/// A receiver that accepts everything gets a room's events in order.
pub fn a_rooms_events_keep_their_order(receiver: &Receiver, records: &Records) -> Vec<String> {
    let own = records
        .deliveries
        .iter()
        .filter(|delivery| text(delivery, "endpoint_id") == receiver.endpoint.id);
    let position: BTreeMap<&str, usize> = own
        .enumerate()
        .map(|(at, delivery)| (text(delivery, "id"), at))
        .collect();
    let mut seen = BTreeSet::new();
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    let mut violations = Vec::new();
    for webhook in receiver.received() {
        let Some(at) = position.get(webhook.id.as_str()) else {
            violations.push(format!("the delivery {} is in no record", webhook.id));
            continue;
        };
        if seen.insert(webhook.id.clone()) {
            let room = text(&webhook.event, "room").to_owned();
            if last
                .insert(room.clone(), *at)
                .is_some_and(|before| before > *at)
            {
                violations.push(format!(
                    "the events of the room {room} came out of order at {}",
                    webhook.id
                ));
            }
        }
    }
    violations
}
