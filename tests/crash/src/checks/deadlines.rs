//! An empty room ends at its deadline, or right after the server's next start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::journal::{Action, Entry};
use crate::records::{Records, text};
use crate::server::Lifetime;

/// Delay with which a room may end while the server runs, on a busy machine.
const TOLERANCE: Duration = Duration::from_secs(10);

pub fn empty_rooms_ended_in_time(
    entries: &[Entry],
    records: &Records,
    lifetimes: &[Lifetime],
) -> Vec<String> {
    let mut last_left: BTreeMap<&str, SystemTime> = BTreeMap::new();
    for session in &records.sessions {
        if let Some(left) = instant(session, "left_at") {
            let last = last_left.entry(text(session, "room")).or_insert(left);
            *last = left.max(*last);
        }
    }
    let ended_by_request = ended_by_request(entries);
    let by_deadline = records
        .rooms
        .iter()
        .filter(|room| !ended_by_request.contains(text(room, "name")));
    by_deadline
        .filter_map(|room| {
            let name = text(room, "name");
            let ended = instant(room, "ended_at")?;
            let timeout = Duration::from_secs(room["empty_timeout_seconds"].as_u64()?);
            let empty_since = last_left
                .get(name)
                .copied()
                .or_else(|| instant(room, "created_at"))?;
            let deadline = empty_since + timeout;
            // The run itself ends the rooms whose deadline is far away.
            if timeout > Duration::from_secs(60) {
                return None;
            }
            if ended + Duration::from_millis(1) < deadline && ended < lifetimes.last()?.from {
                let early = deadline.duration_since(ended).unwrap_or_default();
                return Some(format!(
                    "the room {name} ended {early:?} before its deadline: {}",
                    story(room, records)
                ));
            }
            let late = uptime(lifetimes, deadline, ended);
            (late > TOLERANCE)
                .then(|| format!("the room {name} ended {late:?} of uptime after its deadline"))
        })
        .collect()
}

/// Returns a room's times and its sessions' times.
fn story(room: &Value, records: &Records) -> String {
    let name = text(room, "name");
    let of_room = records
        .sessions
        .iter()
        .filter(|session| text(session, "room") == name);
    let session = |session: &Value| {
        format!(
            "; {} {} to {}",
            text(session, "participant_sid"),
            text(session, "joined_at"),
            text(session, "left_at")
        )
    };
    let sessions: String = of_room.map(session).collect();
    let (created, ended) = (text(room, "created_at"), text(room, "ended_at"));
    format!(
        "{created} to {ended}, {} s{sessions}",
        room["empty_timeout_seconds"]
    )
}

fn ended_by_request(entries: &[Entry]) -> BTreeSet<&str> {
    let names = entries.iter().filter_map(|entry| match &entry.action {
        Action::EndRoom { name } => Some(name.as_str()),
        _ => None,
    });
    names.collect()
}

/// Returns the server's running time between two instants.
fn uptime(lifetimes: &[Lifetime], from: SystemTime, to: SystemTime) -> Duration {
    let overlap = |lifetime: &Lifetime| {
        let (begin, end) = (lifetime.from.max(from), lifetime.to.unwrap_or(to).min(to));
        end.duration_since(begin).unwrap_or_default()
    };
    lifetimes.iter().map(overlap).sum()
}

pub fn instant(value: &Value, field: &str) -> Option<SystemTime> {
    value[field]
        .as_str()?
        .parse::<jiff::Timestamp>()
        .ok()
        .map(SystemTime::from)
}
