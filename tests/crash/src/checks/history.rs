//! The event history has every event once, in order: all receivers were sent the same events, and a position that a client has read past
//! gets no further events.

use serde_json::Value;

use crate::journal::{Action, Answer, Entry};
use crate::records::{Records, text};

pub fn ids_grow(records: &Records) -> Vec<String> {
    let pairs = records.events.iter().zip(records.events.iter().skip(1));
    pairs
        .filter(|(event, next)| id(event) >= id(next))
        .map(|(event, next)| {
            format!(
                "the event {} follows {} in the history",
                id(next),
                id(event)
            )
        })
        .collect()
}

/// Each webhook endpoint has a delivery for each event of the history, in its order, with the same payload.
pub fn deliveries_are_the_history(records: &Records) -> Vec<String> {
    let history = payloads(records.events.iter());
    let endpoints = records
        .endpoints
        .iter()
        .map(|endpoint| text(endpoint, "id"));
    endpoints
        .filter_map(|endpoint| {
            let own = records
                .deliveries
                .iter()
                .filter(|delivery| text(delivery, "endpoint_id") == endpoint);
            let delivered = payloads(own);
            let same = delivered.iter().zip(&history).take_while(|(a, b)| a == b);
            let same = same.count();
            (delivered.len() != history.len() || same != history.len()).then(|| {
                format!(
                    "the endpoint {endpoint} has {} deliveries for {} events, which differ from number {same} on",
                    delivered.len(),
                    history.len()
                )
            })
        })
        .collect()
}

fn payloads<'a>(rows: impl Iterator<Item = &'a Value>) -> Vec<&'a Value> {
    rows.map(|row| &row["payload"]).collect()
}

/// A page contains the events of its room up to its cursor: none of them appeared later, and none is gone.
pub fn pages_are_parts_of_the_history(entries: &[Entry], records: &Records) -> Vec<String> {
    let mut violations = Vec::new();
    for entry in entries {
        let Action::ReadEvents { room } = &entry.action else {
            continue;
        };
        let Some(page) = entry.acknowledged().map(Answer::json) else {
            continue;
        };
        let cursor = page["cursor"].as_u64().unwrap_or_default();
        let read: Vec<u64> = page["events"]
            .as_array()
            .into_iter()
            .flatten()
            .map(id)
            .collect();
        let of_room = records
            .events
            .iter()
            .filter(|event| text(event, "room") == room);
        let expected: Vec<u64> = of_room.map(id).filter(|id| *id <= cursor).collect();
        if read != expected {
            violations.push(format!(
                "up to {cursor}, a page of the room {room} had the events {read:?}, and the history has {expected:?}"
            ));
        }
    }
    violations
}

fn id(event: &Value) -> u64 {
    event["id"].as_u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::checks::tests::{entry, records};

    fn with(ids: &[u64], delivered: &[u64]) -> Records {
        let payload = |id: &u64| json!({"type": "track.published", "track_sid": id});
        let event = |id: &u64| json!({"id": id, "room": "a", "payload": payload(id)});
        let delivery = |id: &u64| json!({"endpoint_id": "e", "payload": payload(id)});
        Records {
            events: ids.iter().map(event).collect(),
            deliveries: delivered.iter().map(delivery).collect(),
            endpoints: vec![json!({"id": "e"})],
            ..records()
        }
    }

    /// Proves R-33.
    #[test]
    fn a_lost_a_repeated_and_a_moved_event_are_found() {
        let found = |ids: &[u64], delivered: &[u64]| {
            let records = with(ids, delivered);
            [ids_grow(&records), deliveries_are_the_history(&records)].map(|found| found.len())
        };
        assert_eq!(found(&[1, 2, 3], &[1, 2, 3]), [0, 0]);
        assert_eq!(found(&[1, 2], &[1, 2, 3]), [0, 1]);
        assert_eq!(found(&[1, 2, 3], &[1, 3]), [0, 1]);
        assert_eq!(found(&[1, 2], &[]), [0, 1]);
        assert_eq!(found(&[1, 2, 2], &[1, 2]), [1, 1]);
        assert_eq!(found(&[2, 1], &[1, 2]), [1, 1]);
    }

    /// Proves R-33.
    #[test]
    fn an_event_that_appears_behind_a_cursor_is_found() {
        let found = |ids: &[u64], cursor: u64| {
            let events: Vec<_> = ids.iter().map(|id| json!({"id": id})).collect();
            let page = json!({"events": events, "cursor": cursor});
            let read = entry(Action::ReadEvents { room: "a".into() }, None, Some(page));
            pages_are_parts_of_the_history(&[read], &with(&[1, 2, 4], &[])).len()
        };
        assert_eq!((found(&[1, 2, 4], 4), found(&[1, 2], 3)), (0, 0));
        assert_eq!((found(&[1], 3), found(&[1, 2, 3], 3)), (1, 1));
    }
}
