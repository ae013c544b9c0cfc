//! After an acknowledged erasure, no record shows the identity. Other identities stay.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::journal::{Action, Answer, Entry};
use crate::records::{Records, text};

/// Returns the identities whose erasure was requested, acknowledged or not.
pub fn requested(entries: &[Entry]) -> BTreeSet<&str> {
    identities(entries, |_| true)
}

fn identities(entries: &[Entry], is_wanted: impl Fn(&Entry) -> bool) -> BTreeSet<&str> {
    let wanted = entries.iter().filter(|entry| is_wanted(entry));
    let identities = wanted.filter_map(|entry| match &entry.action {
        Action::Erase { identity } => Some(identity.as_str()),
        _ => None,
    });
    identities.collect()
}

pub fn no_record_shows_an_erased_identity(entries: &[Entry], records: &Records) -> Vec<String> {
    let erased = identities(entries, |entry| entry.acknowledged().is_some());
    let kinds: [(&str, Vec<&Value>); 5] = [
        ("session", records.sessions.iter().collect()),
        ("ban", records.bans.values().flatten().collect()),
        ("code", records.codes.values().flatten().collect()),
        ("event", payloads(&records.events)),
        ("delivery", payloads(&records.deliveries)),
    ];
    let mut violations = Vec::new();
    for (kind, rows) in &kinds {
        let shown = rows.iter().copied().flat_map(shown_identities);
        let found: BTreeSet<&str> = shown.filter(|shown| erased.contains(shown)).collect();
        violations.extend(
            found
                .iter()
                .map(|identity| format!("a {kind} shows {identity}, which was erased")),
        );
    }
    violations
}

fn payloads(rows: &[Value]) -> Vec<&Value> {
    rows.iter().map(|row| &row["payload"]).collect()
}

/// Returns the values of all fields with an identity.
fn shown_identities(row: &Value) -> impl Iterator<Item = &str> {
    let fields = row.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| name.ends_with("identity"))
        .filter_map(|(_, value)| value.as_str())
}

/// A session keeps its identity unless its erasure was requested.
pub fn other_identities_stay(entries: &[Entry], records: &Records) -> Vec<String> {
    let requested = requested(entries);
    let by_sid: BTreeMap<&str, &str> = records
        .sessions
        .iter()
        .map(|session| {
            (
                text(session, "participant_sid"),
                text(session, "participant_identity"),
            )
        })
        .collect();
    let mut violations = Vec::new();
    for entry in entries {
        let Action::Join { identity, .. } = &entry.action else {
            continue;
        };
        let Some(joined) = entry.acknowledged().map(Answer::json) else {
            continue;
        };
        let sid = text(&joined, "sid");
        let changed = by_sid.get(sid).filter(|shown| **shown != identity);
        if let Some(shown) = changed.filter(|_| !requested.contains(identity.as_str())) {
            violations.push(format!("the session of {identity} shows {shown}"));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::checks::tests::{entry, records};

    fn erase(answer: Option<Value>) -> Entry {
        let identity = "guest-1".into();
        entry(Action::Erase { identity }, Some("k"), answer)
    }

    /// Proves R-33.
    #[test]
    fn an_identity_that_a_session_an_event_or_a_ban_shows_after_its_erasure_is_found() {
        let found = |records: &Records, answer: Option<Value>| {
            no_record_shows_an_erased_identity(&[erase(answer)], records).len()
        };
        let session = json!({"participant_identity": "guest-1"});
        let event = json!({"payload": {"changed_by_identity": "guest-1"}});
        let ban = json!({"identity": "guest-1"});
        let shown = Records {
            sessions: vec![session],
            events: vec![event.clone()],
            deliveries: vec![event],
            bans: [("a".into(), vec![ban])].into(),
            ..records()
        };
        assert_eq!(found(&shown, Some(json!({}))), 4);
        assert_eq!(found(&shown, None), 0, "not acknowledged");
        let other = Records {
            sessions: vec![json!({"participant_identity": "guest-10"})],
            ..records()
        };
        assert_eq!(found(&other, Some(json!({}))), 0);
    }

    #[test]
    fn an_identity_that_was_erased_without_a_request_is_found() {
        let join = Action::Join {
            room: "a".into(),
            identity: "guest-1".into(),
        };
        let join = entry(join, None, Some(json!({"sid": "PA_1"})));
        let session = json!({"participant_sid": "PA_1", "participant_identity": "erased-1"});
        let records = Records {
            sessions: vec![session],
            ..records()
        };
        assert_eq!(
            other_identities_stay(std::slice::from_ref(&join), &records).len(),
            1
        );
        assert_eq!(
            other_identities_stay(&[join, erase(None)], &records).len(),
            0
        );
    }
}
