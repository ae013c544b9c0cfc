//! A room code is exchanged at most as often as its limit, and every exchange is counted.

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
