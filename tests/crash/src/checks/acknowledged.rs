//! Every acknowledged resource exists exactly once, and no others exist.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::count;
use crate::journal::{Action, Answer, Entry};
use crate::records::{Records, text};

pub fn rooms_and_templates_exist_once(entries: &[Entry], records: &Records) -> Vec<String> {
    let rooms = count(records.rooms.iter().map(|room| text(room, "name")));
    let templates = count(
        records
            .templates
            .iter()
            .map(|template| text(template, "name")),
    );
    let created = entries
        .iter()
        .filter(|entry| entry.acknowledged().is_some());
    let missing = created.filter_map(|entry| match &entry.action {
        Action::CreateRoom { name } => {
            (rooms.get(name.as_str()) != Some(&1)).then_some(("room", name))
        }
        Action::CreateTemplate { name } => {
            (templates.get(name.as_str()) != Some(&1)).then_some(("template", name))
        }
        _ => None,
    });
    missing
        .map(|(kind, name)| format!("the {kind} {name} was acknowledged, and does not exist once"))
        .collect()
}

/// Rooms and templates have the settings that their creation has returned.
pub fn settings_are_kept(entries: &[Entry], records: &Records) -> Vec<String> {
    let by_name = |rows: &'_ [Value], field: &'static str| -> BTreeMap<String, Value> {
        let setting = |row: &Value| (text(row, "name").to_owned(), row[field].clone());
        rows.iter().map(setting).collect()
    };
    let rooms = by_name(&records.rooms, "max_duration_seconds");
    let templates = by_name(&records.templates, "settings");
    let created = entries.iter().filter_map(|entry| {
        let (name, field, kept) = match &entry.action {
            Action::CreateRoom { name } => (name, "max_duration_seconds", rooms.get(name)),
            Action::CreateTemplate { name } => (name, "settings", templates.get(name)),
            _ => return None,
        };
        Some((name, kept?, entry.acknowledged()?.json()[field].clone()))
    });
    created
        .filter(|(_, kept, created)| *kept != created)
        .map(|(name, kept, created)| {
            format!("the settings of {name} are {kept}, and were acknowledged as {created}")
        })
        .collect()
}

pub fn nothing_was_made_up(entries: &[Entry], records: &Records) -> Vec<String> {
    let asked: BTreeSet<&str> = entries
        .iter()
        .filter_map(|entry| match &entry.action {
            Action::CreateRoom { name } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let names = records.rooms.iter().map(|room| text(room, "name"));
    names
        .filter(|name| !asked.contains(name))
        .map(|name| format!("nobody asked for the room {name}"))
        .collect()
}

/// All 2xx responses to one idempotency key have the same bytes.
pub fn a_key_has_one_response(entries: &[Entry]) -> Vec<String> {
    let mut responses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in entries {
        if let (Some(key), Some(answer)) = (&entry.key, entry.acknowledged()) {
            responses.entry(key).or_default().insert(&answer.body);
        }
    }
    let several = responses.into_iter().filter(|(_, bodies)| bodies.len() > 1);
    several
        .map(|(key, bodies)| format!("the idempotency key {key} got {} responses", bodies.len()))
        .collect()
}

pub fn joins_have_a_session(entries: &[Entry], records: &Records) -> Vec<String> {
    let sessions = count(
        records
            .sessions
            .iter()
            .map(|session| text(session, "participant_sid")),
    );
    let mut violations = Vec::new();
    for entry in entries
        .iter()
        .filter(|entry| matches!(entry.action, Action::Join { .. }))
    {
        let Some(joined) = entry.acknowledged().map(Answer::json) else {
            continue;
        };
        if sessions.get(text(&joined, "sid")) != Some(&1) {
            violations.push(format!(
                "the join {} was acknowledged, and has no session",
                joined["sid"]
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
