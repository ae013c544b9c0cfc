//! Each cluster check finds its kind of violation.

use std::time::{Duration, Instant, SystemTime};

use livekit_double::{LostWebhook, WebhookOutcomes};
use serde_json::{Value, json};

use super::{Evidence, availability, calls, epochs};
use crate::checks::tests::records;
use crate::cluster::{LateRequest, Round, Scenario, Writer};
use crate::journal::{Action, Answer, Entry};
use crate::records::Records;
use crate::service::Attempt;

/// A run with rounds from the 10th to the 20th and from the 30th to the 40th second, with a fault at node 1.
struct Run {
    start: Instant,
    evidence: Evidence,
}

impl Run {
    fn of(scenario: Scenario) -> Self {
        let start = Instant::now();
        let round = |number: u32| Round {
            number,
            failed: vec![1],
            began: start + Duration::from_secs(u64::from(number) * 20 - 10),
            ended: start + Duration::from_secs(u64::from(number) * 20),
            writes_after: Some(Duration::from_secs(4)),
            epochs: (i64::from(number), i64::from(number) + 1),
            ends_again: None,
            exits: vec![0, 1, 0],
            violations: Vec::new(),
        };
        let evidence = Evidence {
            scenario,
            passes_on: true,
            is_timed: true,
            entries: Vec::new(),
            rounds: vec![round(1), round(2)],
            late: Vec::new(),
            connected: [].into(),
            webhooks: WebhookOutcomes::default(),
            writers: Vec::new(),
            marked_twice: Vec::new(),
            ending: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000),
        };
        Self { start, evidence }
    }

    /// Adds a request to a node, which is answered after a second.
    fn request(
        mut self,
        node: usize,
        second: u64,
        action: Action,
        key: Option<&str>,
        status: Option<u16>,
    ) -> Self {
        let sent = self.start + Duration::from_secs(second);
        let answer = status.map(|status| Answer {
            status,
            body: "{}".into(),
        });
        let attempt = Attempt {
            answer,
            node,
            sent,
            ended: sent + Duration::from_secs(1),
        };
        self.evidence.entries.push(Entry::new(action, key, attempt));
        self
    }

    fn join(mut self, room: &str, sid: &str) -> Self {
        self = self.request(
            0,
            0,
            Action::Join {
                room: room.into(),
                identity: "i".into(),
            },
            None,
            None,
        );
        let body = json!({"sid": sid}).to_string();
        self.evidence.entries.last_mut().unwrap().answer = Some(Answer { status: 200, body });
        self
    }
}

fn create() -> Action {
    Action::CreateRoom { name: "a".into() }
}

fn read() -> Action {
    Action::ReadRoom { name: "a".into() }
}

fn exchange() -> Action {
    Action::ExchangeCode { code: "c".into() }
}

fn with_rooms(rooms: &[(&str, u64)]) -> Records {
    let room =
        |(name, timeout): &(&str, u64)| json!({"name": name, "empty_timeout_seconds": timeout});
    Records {
        rooms: rooms.iter().map(room).collect(),
        ..records()
    }
}

/// Proves R-34.
#[test]
fn a_request_that_fails_at_a_node_that_works_is_found_unless_it_cannot_be_repeated() {
    let found = |scenario, node, second, action, key, status| {
        availability::requests_succeed(
            &Run::of(scenario)
                .request(node, second, action, key, status)
                .evidence,
        )
        .len()
    };
    let kill = Scenario::Kill;
    assert_eq!(found(kill, 0, 15, create(), Some("k"), Some(503)), 1);
    assert_eq!(found(kill, 0, 15, create(), Some("k"), None), 1);
    assert_eq!(found(kill, 0, 15, read(), None, Some(502)), 1);
    assert_eq!(found(kill, 0, 15, read(), None, Some(200)), 0);
    assert_eq!(found(kill, 0, 15, read(), None, Some(404)), 0);
    assert_eq!(
        found(kill, 1, 15, create(), Some("k"), None),
        0,
        "the node that was killed"
    );
    assert_eq!(
        found(kill, 0, 15, exchange(), None, Some(503)),
        0,
        "it cannot be repeated"
    );
    assert_eq!(
        found(kill, 0, 25, exchange(), None, Some(503)),
        1,
        "there is no fault"
    );
    assert_eq!(
        found(kill, 1, 25, create(), Some("k"), None),
        1,
        "there is no fault"
    );
    assert_eq!(
        found(kill, 0, 9, exchange(), None, None),
        0,
        "the fault came before the answer"
    );
    let mut run = Run::of(kill)
        .request(0, 15, create(), Some("k"), Some(503))
        .request(0, 25, read(), None, None);
    run.evidence.passes_on = false;
    assert_eq!(
        availability::requests_succeed(&run.evidence).len(),
        1,
        "nobody holds requests during a fault"
    );
    assert_eq!(
        found(Scenario::KillStandby, 0, 15, exchange(), None, Some(503)),
        1
    );
    assert_eq!(
        found(Scenario::KillStandby, 1, 15, exchange(), None, None),
        0
    );
    assert_eq!(
        found(
            Scenario::PostgresKill,
            0,
            15,
            create(),
            Some("k"),
            Some(503)
        ),
        0
    );
    assert_eq!(
        found(Scenario::PostgresKill, 0, 5, create(), Some("k"), Some(503)),
        1
    );
    let soon_after =
        [23, 27].map(|second| found(Scenario::PostgresKill, 0, second, read(), None, Some(503)));
    assert_eq!(soon_after, [0, 1], "sessions are opened again one by one");
    assert_eq!(found(kill, 0, 23, read(), None, Some(503)), 1);
}

#[test]
fn a_read_that_misses_a_room_is_found() {
    let found = |status| {
        availability::reads_find_what_was_written(
            &Run::of(Scenario::Kill)
                .request(0, 15, read(), None, Some(status))
                .evidence,
        )
    };
    assert_eq!((found(404).len(), found(200).len()), (1, 0));
}

/// Proves R-35.
#[test]
fn changes_that_come_back_too_late_or_never_are_found() {
    let found = |scenario, first: Option<u64>, second: u64, is_timed| {
        let Run { mut evidence, .. } = Run::of(scenario);
        evidence.is_timed = is_timed;
        evidence.rounds[0].writes_after = first.map(Duration::from_secs);
        evidence.rounds[1].writes_after = Some(Duration::from_secs(second));
        availability::changes_return_in_time(&evidence).len()
    };
    let kill = Scenario::Kill;
    assert_eq!(found(kill, Some(4), 5, true), 0);
    assert_eq!(found(kill, Some(4), 7, true), 1, "the median");
    assert_eq!(
        found(kill, Some(4), 11, true),
        2,
        "the longest, and the median"
    );
    assert_eq!(found(kill, Some(4), 11, false), 0);
    assert_eq!(found(kill, None, 5, false), 1);
    assert_eq!(
        (
            found(Scenario::PostgresKill, Some(1), 4, true),
            found(Scenario::PostgresKill, Some(6), 1, true)
        ),
        (0, 2)
    );
    assert_eq!(found(Scenario::KillStandby, Some(1), 30, true), 0);
}

#[test]
fn slow_requests_while_nodes_are_replaced_are_found() {
    let with_slow = |scenario, slow: usize, second: u64| {
        let mut run = Run::of(scenario);
        for number in 0..100 {
            run = run.request(0, second, read(), None, Some(200));
            let entry = run.evidence.entries.last_mut().unwrap();
            entry.ended = entry.sent + Duration::from_secs(if number < slow { 4 } else { 1 });
        }
        availability::replacements_are_hardly_noticed(&run.evidence).len()
    };
    assert_eq!(
        (
            with_slow(Scenario::Rolling, 0, 12),
            with_slow(Scenario::Rolling, 1, 12)
        ),
        (0, 1)
    );
    assert_eq!(
        (
            with_slow(Scenario::Rolling, 50, 22),
            with_slow(Scenario::Kill, 50, 12)
        ),
        (0, 0)
    );
}

/// Proves R-36.
#[test]
fn two_writers_in_one_epoch_are_found() {
    let with = |writers: &[(i64, &str)]| {
        let Run { mut evidence, .. } = Run::of(Scenario::Kill);
        evidence.writers = writers
            .iter()
            .map(|(epoch, name)| Writer {
                epoch: *epoch,
                name: (*name).into(),
            })
            .collect();
        epochs::each_epoch_has_one_writer(&evidence).len()
    };
    assert_eq!(
        with(&[(1, "node-0-1"), (2, "node-1-1"), (3, "node-0-2")]),
        0
    );
    assert_eq!(
        with(&[(1, "node-0-1"), (2, "node-0-1"), (2, "node-1-1")]),
        1
    );
}

/// Proves R-37.
#[test]
fn what_a_replaced_node_does_is_found() {
    let found = |status, rooms: &[(&str, u64)]| {
        let Run { mut evidence, .. } = Run::of(Scenario::Pause);
        evidence.late = vec![LateRequest {
            room: "late".into(),
            status,
        }];
        epochs::a_replaced_node_does_nothing(&evidence, &with_rooms(rooms)).len()
    };
    assert_eq!((found(None, &[]), found(Some(503), &[("a", 1)])), (0, 0));
    assert_eq!((found(Some(201), &[]), found(None, &[("late", 1)])), (1, 1));
}

#[test]
fn a_lease_that_moves_or_stays_unexpectedly_is_found() {
    let found = |scenario, epochs: (i64, i64)| {
        let Run { mut evidence, .. } = Run::of(scenario);
        evidence.rounds.truncate(1);
        evidence.rounds[0].epochs = epochs;
        epochs::the_lease_moves_as_expected(&evidence).len()
    };
    assert_eq!(
        [(1, 1), (1, 2), (1, 3)].map(|epochs| found(Scenario::Kill, epochs)),
        [1, 0, 1]
    );
    assert_eq!(
        [(1, 1), (1, 2)].map(|epochs| found(Scenario::CutNodes, epochs)),
        [0, 1]
    );
    assert_eq!(
        [(1, 1), (1, 2)].map(|epochs| found(Scenario::PostgresKill, epochs)),
        [0, 0]
    );
}

#[test]
fn a_process_that_ends_by_itself_or_does_not_end_is_found() {
    let found_with = |scenario, exits: [usize; 3], ends_again| {
        let Run { mut evidence, .. } = Run::of(scenario);
        evidence.rounds.truncate(1);
        (evidence.rounds[0].exits, evidence.rounds[0].ends_again) = (exits.into(), ends_again);
        epochs::no_process_ends_by_itself(&evidence).len()
    };
    let found = |scenario, exits| found_with(scenario, exits, None);
    assert_eq!(
        [[0, 1, 0], [0, 1, 1], [0, 2, 0], [0, 0, 0]].map(|exits| found(Scenario::Kill, exits)),
        [0, 1, 1, 1]
    );
    assert_eq!(
        [[0, 0, 0], [0, 1, 0]].map(|exits| found(Scenario::CutNodes, exits)),
        [0, 1]
    );
    assert_eq!(
        [[1, 1, 1], [1, 1, 0]].map(|exits| found(Scenario::Rolling, exits)),
        [0, 1]
    );
    assert_eq!(
        [[1, 1, 2], [1, 2, 1]].map(|exits| found_with(Scenario::Rolling, exits, Some(2))),
        [0, 2]
    );
}

#[test]
fn a_delivery_that_was_marked_twice_and_what_a_round_saw_are_found() {
    let Run { mut evidence, .. } = Run::of(Scenario::Pause);
    assert_eq!(
        epochs::deliveries_are_marked_once(&evidence).len()
            + epochs::rounds_saw_nothing_wrong(&evidence).len(),
        0
    );
    evidence.marked_twice = vec!["1".into()];
    evidence.rounds[1].violations = vec!["node 1 ended with 0".into()];
    assert_eq!(epochs::deliveries_are_marked_once(&evidence).len(), 1);
    assert_eq!(
        epochs::rounds_saw_nothing_wrong(&evidence),
        ["round 2: node 1 ended with 0"]
    );
}

/// Proves R-38.
#[test]
fn a_participant_who_is_gone_is_found() {
    let rooms = with_rooms(&[("a", 600), ("b", 1)]);
    let found = |run: Run, connected: &[&str]| {
        let evidence = Evidence {
            connected: connected.iter().map(|sid| (*sid).to_owned()).collect(),
            ..run.evidence
        };
        calls::calls_go_on(&evidence, &rooms).len()
    };
    let joined = || Run::of(Scenario::Kill).join("a", "PA_1");
    assert_eq!((found(joined(), &["PA_1"]), found(joined(), &[])), (0, 1));
    assert_eq!(
        found(Run::of(Scenario::Kill).join("b", "PA_1"), &[]),
        0,
        "its room may have been due"
    );
    assert_eq!(
        found(joined().join("a", "PA_2"), &["PA_2"]),
        0,
        "it has joined again"
    );
    let end = Action::EndRoom { name: "a".into() };
    assert_eq!(found(joined().request(0, 1, end, None, Some(204)), &[]), 0);
    let leave = || Action::Leave { sid: "PA_1".into() };
    assert_eq!(
        found(joined().request(0, 1, leave(), None, Some(204)), &[]),
        0
    );
    assert_eq!(
        found(joined().request(0, 1, leave(), None, Some(404)), &[]),
        1
    );
    let publish = Action::Publish { sid: "PA_1".into() };
    assert_eq!(
        found(joined().request(0, 1, publish, None, Some(404)), &["PA_1"]),
        1
    );
}

#[test]
fn a_participant_without_a_session_and_one_with_two_are_found() {
    let found = |rooms: &[(&str, u64)], sessions: &[Value], run: Run| {
        let records = Records {
            sessions: sessions.to_vec(),
            ..with_rooms(rooms)
        };
        calls::participants_have_a_session(&run.evidence, &records).len()
    };
    let session =
        || json!({"id": "1", "participant_sid": "PA_1", "left_at": "2026-01-01T00:00:00Z"});
    let (lasting, joined) = ([("a", 600)], || Run::of(Scenario::Kill).join("a", "PA_1"));
    let end = || Action::EndRoom { name: "a".into() };
    assert_eq!(found(&lasting, &[session()], joined()), 0);
    assert_eq!(found(&lasting, &[], joined()), 1);
    assert_eq!(
        found(&lasting, &[], joined().request(0, 1, end(), None, None)),
        0
    );
    assert_eq!(found(&[("a", 1)], &[], joined()), 0);
    assert_eq!(found(&[("a", 1)], &[session(), session()], joined()), 1);
    assert_eq!(
        found(
            &lasting,
            &[json!({"id": "1", "participant_sid": "PA_1"})],
            joined()
        ),
        1,
        "never closed"
    );
}

#[test]
fn a_room_that_ended_unasked_is_found() {
    let found = |timeout: u64, second: u64, run: Run| {
        let at = jiff::Timestamp::from_second(i64::try_from(second).unwrap())
            .unwrap()
            .to_string();
        let room = json!({"name": "a", "empty_timeout_seconds": timeout, "ended_at": at});
        calls::open_rooms_stay_open(
            &run.evidence,
            &Records {
                rooms: vec![room],
                ..records()
            },
        )
        .len()
    };
    let run = || Run::of(Scenario::CutLivekit);
    let end = Action::EndRoom { name: "a".into() };
    assert_eq!(
        (
            found(600, 999, run()),
            found(600, 1_001, run()),
            found(1, 999, run())
        ),
        (1, 0, 0)
    );
    assert_eq!(
        found(600, 999, run().request(0, 1, end, None, Some(204))),
        0
    );
}

/// Proves R-38.
#[test]
fn a_webhook_that_livekit_lost_is_found() {
    let Run { mut evidence, .. } = Run::of(Scenario::Kill);
    assert!(calls::livekit_webhooks_are_accepted(&evidence).is_empty());
    evidence.webhooks.lost = vec![LostWebhook {
        event: "participant_joined".into(),
        status: Some(503),
    }];
    assert_eq!(calls::livekit_webhooks_are_accepted(&evidence).len(), 1);
}
