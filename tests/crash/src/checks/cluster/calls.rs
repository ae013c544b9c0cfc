//! Calls on LiveKit continue, and the records follow them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Evidence;
use crate::checks::count;
use crate::checks::deadlines::instant;
use crate::journal::{Action, Answer, Entry, moderated_identities};
use crate::records::{Records, text};

/// Rooms with a longer empty timeout end only by requests.
const LONG: Duration = Duration::from_secs(60);

/// A participant is disconnected only by its own leave, by its room's end, or by joining again. Participants in rooms that end on their own
/// are excluded: such a room's deadline may have passed while no node was active. So are identities that were banned, removed or erased.
pub fn calls_go_on(evidence: &Evidence, records: &Records) -> Vec<String> {
    let lasting = lasting_rooms(records);
    let moderated = moderated_identities(&evidence.entries);
    let mut sids: BTreeMap<(&str, &str), String> = BTreeMap::new();
    let mut rooms_of: BTreeMap<String, &str> = BTreeMap::new();
    let mut violations = Vec::new();
    for entry in &evidence.entries {
        match &entry.action {
            Action::Join { room, identity } if !moderated.contains(identity.as_str()) => {
                let Some(joined) = entry.acknowledged().map(Answer::json) else {
                    continue;
                };
                let sid = text(&joined, "sid").to_owned();
                if let Some(replaced) = sids.insert((room, identity), sid.clone()) {
                    rooms_of.remove(&replaced);
                }
                if lasting.contains(room.as_str()) {
                    rooms_of.insert(sid, room);
                }
            }
            Action::EndRoom { name } => rooms_of.retain(|_, room| room != name),
            Action::Leave { sid } => {
                let was_expected = rooms_of.remove(sid).is_some();
                let is_missed = (was_expected && is_gone(entry))
                    .then(|| format!("the participant {sid} was gone before it left"));
                violations.extend(is_missed);
            }
            Action::Publish { sid } if rooms_of.contains_key(sid) && is_gone(entry) => {
                violations.push(format!(
                    "the participant {sid} was gone before it published a track"
                ));
            }
            _ => {}
        }
    }
    let gone = rooms_of
        .iter()
        .filter(|(sid, _)| !evidence.connected.contains(*sid));
    violations.extend(
        gone.map(|(sid, room)| format!("the participant {sid} of the room {room} is gone")),
    );
    violations
}

fn is_gone(entry: &Entry) -> bool {
    entry
        .answer
        .as_ref()
        .is_some_and(|answer| answer.status == 404)
}

/// A participant in a room that no request ended has exactly one session; all sessions are closed at the end. A participant that was banned
/// or removed before LiveKit's report of its join has none.
pub fn participants_have_a_session(evidence: &Evidence, records: &Records) -> Vec<String> {
    let (lasting, ended) = (lasting_rooms(records), asked_to_end(&evidence.entries));
    let moderated = moderated_identities(&evidence.entries);
    let sessions = count(
        records
            .sessions
            .iter()
            .map(|session| text(session, "participant_sid")),
    );
    let mut violations = Vec::new();
    for entry in &evidence.entries {
        let Action::Join { room, identity } = &entry.action else {
            continue;
        };
        let Some(joined) = entry.acknowledged().map(Answer::json) else {
            continue;
        };
        let sid = text(&joined, "sid");
        let found = sessions.get(sid).copied().unwrap_or_default();
        let may_be_missing = !lasting.contains(room.as_str())
            || ended.contains(room.as_str())
            || moderated.contains(identity.as_str());
        let is_recorded = found == 1 || found == 0 && may_be_missing;
        if !is_recorded {
            violations.push(format!(
                "the participant {sid} of the room {room} has {found} sessions"
            ));
        }
    }
    let open = records
        .sessions
        .iter()
        .filter(|session| session.get("left_at").is_none());
    violations
        .extend(open.map(|session| format!("the session {} was never closed", session["id"])));
    violations
}

/// A room that does not end on its own stays open until the run ends it, or a request does.
pub fn open_rooms_stay_open(evidence: &Evidence, records: &Records) -> Vec<String> {
    let (lasting, asked) = (lasting_rooms(records), asked_to_end(&evidence.entries));
    let rooms = records.rooms.iter().filter(|room| {
        let name = text(room, "name");
        let is_early = instant(room, "ended_at").is_some_and(|ended| ended < evidence.ending);
        is_early && lasting.contains(name) && !asked.contains(name)
    });
    rooms
        .map(|room| {
            format!(
                "the room {} ended at {}",
                text(room, "name"),
                text(room, "ended_at")
            )
        })
        .collect()
}

/// Each LiveKit webhook was accepted, within LiveKit's attempts.
pub fn livekit_webhooks_are_accepted(evidence: &Evidence) -> Vec<String> {
    let lost = evidence.webhooks.lost.iter();
    lost.map(|webhook| {
        format!(
            "the webhook {} of LiveKit was lost: {:?}",
            webhook.event, webhook.status
        )
    })
    .collect()
}

fn lasting_rooms(records: &Records) -> BTreeSet<&str> {
    let lasting = records.rooms.iter().filter(|room| {
        room["empty_timeout_seconds"]
            .as_u64()
            .is_some_and(|timeout| timeout > LONG.as_secs())
    });
    lasting.map(|room| text(room, "name")).collect()
}

fn asked_to_end(entries: &[Entry]) -> BTreeSet<&str> {
    let names = entries.iter().filter_map(|entry| match &entry.action {
        Action::EndRoom { name } => Some(name.as_str()),
        _ => None,
    });
    names.collect()
}
