//! Each check finds its kind of violation.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::{acknowledged, codes, deadlines, events};
use crate::journal::{Action, Answer, Entry};
use crate::records::Records;
use crate::server::Lifetime;
use crate::service::Attempt;

pub fn entry(action: Action, key: Option<&str>, answer: Option<Value>) -> Entry {
    let answer = answer.map(|body| Answer {
        status: 201,
        body: body.to_string(),
    });
    let now = Instant::now();
    Entry::new(
        action,
        key,
        Attempt {
            answer,
            node: 0,
            sent: now,
            ended: now,
        },
    )
}

/// Returns a request that was refused with a code.
pub fn refused(action: Action, code: &str) -> Entry {
    let body = json!({"error": {"code": code}}).to_string();
    Entry {
        answer: Some(Answer { status: 409, body }),
        ..entry(action, None, None)
    }
}

fn create(name: &str, answer: Option<Value>) -> Entry {
    entry(Action::CreateRoom { name: name.into() }, Some("k"), answer)
}

pub fn records() -> Records {
    Records {
        rooms: Vec::new(),
        templates: Vec::new(),
        codes: [].into(),
        bans: [].into(),
        sessions: Vec::new(),
        endpoints: Vec::new(),
        deliveries: Vec::new(),
        events: Vec::new(),
    }
}

fn with_events(events: &[Value]) -> Records {
    let deliveries = events
        .iter()
        .map(|event| json!({"endpoint_id": "e", "payload": event}));
    Records {
        deliveries: deliveries.collect(),
        ..records()
    }
}

/// Proves R-33.
#[test]
fn a_lost_a_doubled_and_an_invented_room_are_found() {
    let entries = [
        create("a", Some(json!({}))),
        create("b", Some(json!({}))),
        create("c", None),
    ];
    let found = Records {
        rooms: vec![
            json!({"name": "b"}),
            json!({"name": "b"}),
            json!({"name": "d"}),
        ],
        ..records()
    };
    assert_eq!(
        acknowledged::rooms_and_templates_exist_once(&entries, &found).len(),
        2
    );
    assert_eq!(
        acknowledged::nothing_was_made_up(&entries, &found),
        ["nobody asked for the room d"]
    );
    let kept = Records {
        rooms: vec![json!({"name": "a"}), json!({"name": "b"})],
        ..records()
    };
    assert!(acknowledged::rooms_and_templates_exist_once(&entries, &kept).is_empty());
}

#[test]
fn a_setting_that_was_not_kept_is_found() {
    let created = [create("a", Some(json!({"max_duration_seconds": 60})))];
    let found = |room: Value| {
        let records = Records {
            rooms: vec![room],
            ..records()
        };
        acknowledged::settings_are_kept(&created, &records).len()
    };
    assert_eq!(found(json!({"name": "a", "max_duration_seconds": 60})), 0);
    assert_eq!(found(json!({"name": "a"})), 1);
}

#[test]
fn two_responses_to_one_key_are_found() {
    let same = [
        create("a", Some(json!({"id": 1}))),
        create("a", None),
        create("a", Some(json!({"id": 1}))),
    ];
    assert!(acknowledged::a_key_has_one_response(&same).is_empty());
    let other = [
        create("a", Some(json!({"id": 1}))),
        create("a", Some(json!({"id": 2}))),
    ];
    assert_eq!(acknowledged::a_key_has_one_response(&other).len(), 1);
}

#[test]
fn a_join_without_a_session_and_an_open_session_are_found() {
    let join = |sid: &str| {
        entry(
            Action::Join {
                room: "a".into(),
                identity: "i".into(),
            },
            None,
            Some(json!({"sid": sid})),
        )
    };
    let sessions = vec![json!({"id": "1", "participant_sid": "PA_1"})];
    let found = Records {
        sessions,
        ..records()
    };
    assert_eq!(
        acknowledged::joins_have_a_session(&[join("PA_1"), join("PA_2")], &found).len(),
        2
    );
}

#[test]
fn a_use_that_is_not_counted_and_one_too_many_are_found() {
    let code = json!({"id": "1", "code": "abcd", "room": "a"});
    let created = entry(
        Action::CreateCode { room: "a".into() },
        Some("k"),
        Some(code),
    );
    let exchange = |answer| {
        entry(
            Action::ExchangeCode {
                code: "abcd".into(),
            },
            None,
            answer,
        )
    };
    let entries = [
        created,
        exchange(Some(json!({}))),
        exchange(Some(json!({}))),
        exchange(None),
    ];
    let with_uses = |uses: u32| Records {
        codes: [("a".into(), vec![json!({"id": "1", "uses": uses})])].into(),
        ..records()
    };
    for (uses, violations) in [(1, 1), (2, 0), (3, 0), (4, 1)] {
        let found = codes::uses_are_counted_within_the_limit(&entries, &with_uses(uses));
        assert_eq!(found.len(), violations, "{found:?}");
    }
    assert_eq!(
        codes::uses_are_counted_within_the_limit(&entries, &records()).len(),
        1
    );
}

/// Proves R-33.
#[test]
fn a_disabled_code_that_is_exchanged_and_one_that_is_enabled_again_are_found() {
    let created = || {
        let action = Action::CreateCode { room: "a".into() };
        let code = json!({"id": "1", "code": "abcd", "room": "a"});
        entry(action, Some("k"), Some(code))
    };
    let code = || "abcd".to_owned();
    let exchange = || entry(Action::ExchangeCode { code: code() }, None, Some(json!({})));
    let disable = |answer| entry(Action::DisableCode { code: code() }, None, answer);
    let found = |entries: &[Entry], disabled: bool| {
        let record = json!({"id": "1", "disabled": disabled});
        let records = Records {
            codes: [("a".into(), vec![record])].into(),
            ..records()
        };
        codes::disabled_codes_stay_disabled(entries, &records).len()
    };
    let acknowledged = || disable(Some(json!({})));
    assert_eq!(found(&[created(), exchange(), acknowledged()], true), 0);
    assert_eq!(found(&[created(), acknowledged(), exchange()], true), 1);
    assert_eq!(found(&[created(), acknowledged()], false), 1);
    assert_eq!(found(&[created()], true), 1, "nobody disabled it");
    let unknown = [created(), disable(None), exchange()];
    assert_eq!((found(&unknown, true), found(&unknown, false)), (0, 0));
}

#[test]
fn a_room_that_ends_late_while_the_server_runs_is_found() {
    let second = |second: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(second);
    let text = |at: u64| jiff::Timestamp::try_from(second(at)).unwrap().to_string();
    let room = |ended: u64| {
        let room = json!({"name": "a", "empty_timeout_seconds": 1, "created_at": text(100), "ended_at": text(ended)});
        Records {
            rooms: vec![room],
            ..records()
        }
    };
    let down_from_102_to_200 = [
        Lifetime {
            from: second(90),
            to: Some(second(102)),
        },
        Lifetime {
            from: second(200),
            to: None,
        },
    ];
    for (ended, violations) in [(101, 0), (200, 0), (201, 0), (210, 1), (100, 1)] {
        let found = deadlines::empty_rooms_ended_in_time(&[], &room(ended), &down_from_102_to_200);
        assert_eq!(found.len(), violations, "{ended}: {found:?}");
    }
}

/// Proves R-33.
#[test]
fn events_without_their_partner_are_found() {
    let event = |kind: &str| json!({"type": kind, "room": "a", "participant_sid": "PA_1", "track_sid": "TR_1"});
    let all = |kinds: &[&str]| {
        let mut found = with_events(&kinds.iter().map(|kind| event(kind)).collect::<Vec<_>>());
        found.rooms = vec![json!({"name": "a", "status": "ended"})];
        found.sessions = vec![json!({"participant_sid": "PA_1"})];
        let checks = [
            events::rooms_start_and_finish_once,
            events::joins_and_leaves_are_paired,
            events::tracks_are_paired,
        ];
        checks.map(|check| check(&found).len())
    };
    let (joined, left) = ("participant.joined", "participant.left");
    let whole = [
        "room.started",
        joined,
        "track.published",
        "track.unpublished",
        left,
        "room.finished",
    ];
    assert_eq!(all(&whole), [0, 0, 0]);
    assert_eq!(
        all(&["room.started", joined, "track.published", left]),
        [1, 0, 1]
    );
    assert_eq!(
        all(&["room.started", joined, left, left, "room.finished"]),
        [0, 1, 0]
    );
    assert_eq!(
        all(&["room.started", joined, "room.finished", left]),
        [1, 0, 0]
    );
}

#[test]
fn a_refused_join_may_precede_the_start_of_its_room_and_may_not_follow_its_end() {
    let found = |kinds: &[&str], sessions: Vec<Value>| {
        let event = |kind: &&str| json!({"type": kind, "room": "a", "participant_sid": "PA_1"});
        let mut found = with_events(&kinds.iter().map(event).collect::<Vec<_>>());
        found.rooms = vec![json!({"name": "a", "status": "ended"})];
        found.sessions = sessions;
        events::rooms_start_and_finish_once(&found).len()
    };
    let aborted = "participant.connection_aborted";
    let refused = [aborted, "room.started", "room.finished"];
    assert_eq!(found(&refused, Vec::new()), 0);
    assert_eq!(found(&[aborted, "room.finished"], Vec::new()), 0);
    assert_eq!(found(&["room.finished", aborted], Vec::new()), 1);
    let joined = vec![json!({"participant_sid": "PA_1"})];
    assert_eq!(found(&refused, joined), 1, "it has joined");
}
