//! A ban applies from its acknowledgement until it is lifted, and a revoked token admits no one.

use std::collections::{BTreeMap, BTreeSet};

use super::erasures;
use super::possible::Possible;
use crate::clients::REASON;
use crate::journal::{Action, Answer, Entry};
use crate::records::{Records, text};

/// An identity in a room.
type Subject<'a> = (&'a str, &'a str);

/// A banned identity gets no token, and an identity whose ban was lifted gets one. At the end, the lists contain the bans that are left.
pub fn bans_apply_until_they_are_lifted(entries: &[Entry], records: &Records) -> Vec<String> {
    let mut bans: BTreeMap<Subject<'_>, Possible<bool>> = BTreeMap::new();
    let mut violations = Vec::new();
    for entry in entries {
        let (room, identity) = match &entry.action {
            Action::PutBan { room, identity }
            | Action::LiftBan { room, identity }
            | Action::CreateToken { room, identity } => (room.as_str(), identity.as_str()),
            _ => continue,
        };
        let ban = bans
            .entry((room, identity))
            .or_insert_with(|| Possible::new(false));
        violations.extend(
            contradiction(entry, ban)
                .map(|found| format!("in the room {room}, {identity} {found}")),
        );
        match entry.action {
            Action::PutBan { .. } => ban.record(entry, true),
            Action::LiftBan { .. } => ban.record(entry, false),
            _ => {}
        }
    }
    // An erased ban has another identity, and no reason.
    let erased = erasures::requested(entries);
    bans.retain(|(_, identity), _| !erased.contains(identity));
    let wrong = bans
        .iter()
        .filter(|(subject, ban)| !is_listed_as(**subject, ban, records));
    violations.extend(wrong.map(|((room, identity), ban)| {
        let expected = if ban.is(&true) {
            "is not listed"
        } else {
            "is listed"
        };
        format!("in the room {room}, the ban of {identity} {expected}, or has another reason")
    }));
    violations
}

/// Returns how a response contradicts a ban that is known.
fn contradiction(entry: &Entry, ban: &Possible<bool>) -> Option<&'static str> {
    match entry.action {
        Action::CreateToken { .. } if ban.is(&true) && entry.acknowledged().is_some() => {
            Some("got a token despite its acknowledged ban")
        }
        Action::CreateToken { .. }
            if ban.is(&false) && entry.was_refused_with("identity_banned") =>
        {
            Some("got no token, and is not banned")
        }
        Action::LiftBan { .. } if ban.is(&true) && entry.was_refused_with("ban_not_found") => {
            Some("has no ban, though it was acknowledged")
        }
        _ => None,
    }
}

fn is_listed_as((room, identity): Subject<'_>, ban: &Possible<bool>, records: &Records) -> bool {
    let of_room = records.bans.get(room).into_iter().flatten();
    let listed: Vec<_> = of_room
        .filter(|ban| text(ban, "identity") == identity)
        .collect();
    match listed.as_slice() {
        [] => ban.allows(&false),
        [listed] => ban.allows(&true) && text(listed, "reason") == REASON,
        _ => false,
    }
}

/// No session has a participant that joined with a token after its revocation was acknowledged.
pub fn revoked_tokens_open_no_session(entries: &[Entry], records: &Records) -> Vec<String> {
    let sids: BTreeSet<&str> = records
        .sessions
        .iter()
        .map(|session| text(session, "participant_sid"))
        .collect();
    let joins = entries
        .iter()
        .filter(|entry| matches!(entry.action, Action::JoinRevoked { .. }));
    let joined = joins.filter_map(Entry::acknowledged).map(Answer::json);
    joined
        .filter(|joined| sids.contains(text(joined, "sid")))
        .map(|joined| format!("the revoked token of {} has a session", joined["sid"]))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::checks::tests::{entry, records, refused};

    fn action(make: fn(String, String) -> Action) -> Action {
        make("a".into(), "i".into())
    }

    fn put() -> Action {
        action(|room, identity| Action::PutBan { room, identity })
    }

    fn lift() -> Action {
        action(|room, identity| Action::LiftBan { room, identity })
    }

    fn mint() -> Action {
        action(|room, identity| Action::CreateToken { room, identity })
    }

    fn done(action: Action) -> Entry {
        entry(action, None, Some(json!({})))
    }

    fn found(entries: &[Entry], bans: &[&str]) -> usize {
        let ban = |reason: &&str| json!({"identity": "i", "reason": reason});
        let records = Records {
            bans: [("a".into(), bans.iter().map(ban).collect())].into(),
            ..records()
        };
        bans_apply_until_they_are_lifted(entries, &records).len()
    }

    /// Proves R-33.
    #[test]
    fn a_lost_ban_a_ban_that_admits_and_one_that_stays_are_found() {
        assert_eq!(found(&[done(put())], &[REASON]), 0);
        assert_eq!(found(&[done(put())], &[]), 1, "lost");
        assert_eq!(found(&[done(put())], &["other"]), 1);
        assert_eq!(found(&[done(put()), done(mint())], &[REASON]), 1, "admits");
        assert_eq!(found(&[done(put()), done(lift())], &[REASON]), 1, "stays");
        let lifted = [done(put()), done(lift())];
        let lifted = |last: Entry| [lifted[0].clone(), lifted[1].clone(), last];
        assert_eq!(found(&lifted(done(mint())), &[]), 0);
        assert_eq!(found(&lifted(refused(mint(), "identity_banned")), &[]), 1);
        assert_eq!(
            found(&[done(put()), refused(lift(), "ban_not_found")], &[REASON]),
            1
        );
    }

    #[test]
    fn a_ban_without_a_response_may_apply_and_an_erased_one_is_not_listed() {
        let unknown = [entry(put(), None, None), done(mint())];
        assert_eq!((found(&unknown, &[REASON]), found(&unknown, &[])), (0, 0));
        let erase = Action::Erase {
            identity: "i".into(),
        };
        assert_eq!(found(&[done(put()), done(erase)], &[]), 0);
    }

    /// Proves R-33.
    #[test]
    fn a_session_of_a_revoked_token_is_found() {
        let join = action(|room, identity| Action::JoinRevoked { room, identity });
        let join = entry(join, None, Some(json!({"sid": "PA_1"})));
        let found = |sid: &str| {
            let records = Records {
                sessions: vec![json!({"participant_sid": sid})],
                ..records()
            };
            revoked_tokens_open_no_session(std::slice::from_ref(&join), &records).len()
        };
        assert_eq!((found("PA_1"), found("PA_2")), (1, 0));
    }
}
