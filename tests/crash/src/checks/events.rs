//! Events come in pairs, in the order of the reported changes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{count, events, events_by_room};
use crate::records::{Records, text};

/// `room.finished` comes once for each ended room, as its last event; `room.started` at most once, before all others. Joins that were
/// refused, as after a ban, do not start a room.
pub fn rooms_start_and_finish_once(records: &Records) -> Vec<String> {
    let rooms = events_by_room(records);
    let sids: BTreeSet<&str> = records
        .sessions
        .iter()
        .map(|session| text(session, "participant_sid"))
        .collect();
    let is_refused_join = |event: &Value| {
        text(event, "type") == "participant.connection_aborted"
            && !sids.contains(text(event, "participant_sid"))
    };
    let ended = records
        .rooms
        .iter()
        .filter(|room| text(room, "status") == "ended");
    ended
        .filter_map(|room| {
            let name = text(room, "name");
            let types: Vec<_> = rooms
                .get(name)
                .into_iter()
                .flatten()
                .skip_while(|event| is_refused_join(event))
                .map(|event| text(event, "type"))
                .collect();
            let times = count(types.iter().copied());
            let finished =
                times.get("room.finished") == Some(&1) && types.last() == Some(&"room.finished");
            let started = match times.get("room.started") {
                None => types.len() == 1,
                Some(times) => *times == 1 && types.first() == Some(&"room.started"),
            };
            (!(finished && started)).then(|| format!("the events of the room {name} are {types:?}"))
        })
        .collect()
}

/// Each session has one `participant.joined`, then one end event.
pub fn joins_and_leaves_are_paired(records: &Records) -> Vec<String> {
    let sids = records
        .sessions
        .iter()
        .map(|session| text(session, "participant_sid"));
    let by_sid = types_by(records, "participant_sid", &["participant."]);
    sids.filter_map(|sid| {
        let types = by_sid.get(sid).map(Vec::as_slice).unwrap_or_default();
        let paired = matches!(
            types,
            [
                "participant.joined",
                "participant.left" | "participant.connection_aborted"
            ]
        );
        (!paired).then(|| format!("the events of the participant {sid} are {types:?}"))
    })
    .collect()
}

/// Each published track was unpublished, once.
pub fn tracks_are_paired(records: &Records) -> Vec<String> {
    let by_track = types_by(records, "track_sid", &["track."]);
    let broken = by_track
        .iter()
        .filter(|(_, types)| types.as_slice() != ["track.published", "track.unpublished"]);
    broken
        .map(|(sid, types)| format!("the events of the track {sid} are {types:?}"))
        .collect()
}

/// Returns event types by the value in `field`, in order.
fn types_by<'a>(
    records: &'a Records,
    field: &str,
    prefixes: &[&str],
) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let wanted = |event: &&Value| {
        prefixes
            .iter()
            .any(|prefix| text(event, "type").starts_with(prefix))
    };
    for event in events(records).into_iter().filter(wanted) {
        found
            .entry(text(event, field))
            .or_default()
            .push(text(event, "type"));
    }
    found
}
