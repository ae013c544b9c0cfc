//! A room code is exchanged at most as often as its limit, every exchange is counted, and a disabled code is not exchanged.

use std::collections::BTreeMap;

use super::possible::Possible;
use crate::clients::CODE_USES;
use crate::journal::{Action, Answer, Entry};
use crate::records::{Records, text};

pub fn uses_are_counted_within_the_limit(entries: &[Entry], records: &Records) -> Vec<String> {
    let created = entries
        .iter()
        .filter(|entry| matches!(entry.action, Action::CreateCode { .. }));
    let codes = created
        .filter_map(|entry| entry.acknowledged())
        .map(Answer::json);
    let mut seen: Vec<_> = codes.collect();
    seen.sort_by(|a, b| text(a, "id").cmp(text(b, "id")));
    seen.dedup_by(|a, b| a["id"] == b["id"]);
    seen.iter()
        .filter_map(|code| {
            let exchanges: Vec<_> = entries.iter().filter(|entry| exchanges(entry, text(code, "code"))).collect();
            let acknowledged = exchanges.iter().filter(|entry| entry.acknowledged().is_some()).count() as u64;
            let unanswered = exchanges.iter().filter(|entry| entry.is_unknown()).count() as u64;
            let of_room = records.codes.get(text(code, "room"));
            let Some(record) = of_room.into_iter().flatten().find(|record| record["id"] == code["id"]) else {
                return Some(format!("the code {} was acknowledged, and does not exist", code["id"]));
            };
            let uses = record["uses"].as_u64().unwrap_or_default();
            let limit = u64::from(CODE_USES);
            let fits = (acknowledged..=acknowledged + unanswered).contains(&uses) && uses <= limit;
            (!fits).then(|| {
                let id = &code["id"];
                format!(
                    "the code {id} has {uses} uses of {limit}: {acknowledged} acknowledged, {unanswered} unanswered"
                )
            })
        })
        .collect()
}

fn exchanges(entry: &Entry, code: &str) -> bool {
    matches!(&entry.action, Action::ExchangeCode { code: exchanged } if exchanged == code)
}

/// A code is exchanged only until its disabling is acknowledged, and only such a code is disabled at the end.
pub fn disabled_codes_stay_disabled(entries: &[Entry], records: &Records) -> Vec<String> {
    let mut disabled: BTreeMap<&str, Possible<bool>> = BTreeMap::new();
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    let mut violations = Vec::new();
    for entry in entries {
        match &entry.action {
            Action::CreateCode { .. } => {
                if let Some(created) = entry.acknowledged().map(Answer::json) {
                    ids.insert(text(&created, "id").into(), text(&created, "code").into());
                }
            }
            Action::DisableCode { code } => disabled
                .entry(code)
                .or_insert_with(|| Possible::new(false))
                .record(entry, true),
            Action::ExchangeCode { code } => {
                let is_disabled = disabled
                    .get(code.as_str())
                    .is_some_and(|code| code.is(&true));
                if is_disabled && entry.acknowledged().is_some() {
                    violations.push(format!(
                        "the code {code} was exchanged after it was disabled"
                    ));
                }
            }
            _ => {}
        }
    }
    let of_clients = records.codes.values().flatten().filter_map(|record| {
        let code = ids.get(text(record, "id"))?;
        Some((code, record["disabled"] == true))
    });
    let wrong = of_clients.filter(|(code, is_disabled)| {
        let possible = disabled.get(code.as_str());
        !possible.map_or(!is_disabled, |possible| possible.allows(is_disabled))
    });
    violations.extend(wrong.map(|(code, is_disabled)| {
        format!("the code {code} is not as acknowledged, but disabled: {is_disabled}")
    }));
    violations
}
