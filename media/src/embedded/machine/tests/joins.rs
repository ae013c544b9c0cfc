//! Joins and leaves, and participants that are kept after their leave.

use super::*;
use crate::embedded::ids::unused_id;

#[test]
fn a_join_is_reported_at_once_and_visible_once_it_is_complete() {
    let mut machine = sandbox_machine();
    let sid = machine
        .begin_join(claims(&room(), "alice", None), NOW)
        .unwrap();
    let reports = machine.take_reports();
    let [
        Report {
            event: MediaEvent::ParticipantJoined(reported),
            ..
        },
    ] = reports.as_slice()
    else {
        panic!("{reports:?}")
    };
    assert_eq!(
        (reported.state, reported.joined_at),
        (ParticipantState::Active, Some(NOW))
    );
    assert_eq!(machine.participants(), []);
    assert_eq!(
        machine.publish(&sid, camera(), NOW),
        Err(MachineError::NoSuchParticipant)
    );

    machine.complete_join(&sid, NOW);
    assert_eq!(machine.participants(), [(**reported).clone()]);
    assert!(sid.as_str().starts_with("PA_") && sid.as_str().len() == 15);
}

#[test]
fn an_aborted_join_leaves_no_state() {
    let mut machine = sandbox_machine();
    let sid = machine
        .begin_join(claims(&room(), "alice", Some(1)), NOW)
        .unwrap();
    machine.take_reports();
    machine.abort_join(&sid, NOW);
    assert_eq!(take_names(&mut machine), []);
    assert!(machine.active_or_left(&sid).is_err() && machine.is_unused());
    assert!(
        machine
            .begin_join(claims(&room(), "bob", Some(1)), NOW)
            .is_ok()
    );
}

#[test]
fn a_join_that_is_refused_after_its_room_was_closed_leaves_no_inbox() {
    let mut machine = sandbox_machine();
    let sid = machine
        .begin_join(claims(&room(), "alice", None), NOW)
        .unwrap();
    machine.close(NOW);
    assert!(machine.active_or_left(&sid).is_ok());
    machine.abort_join(&sid, NOW);
    assert!(machine.active_or_left(&sid).is_err());
}

#[test]
fn a_full_room_accepts_only_participants_that_replace_themselves() {
    let mut machine = sandbox_machine();
    let first = join(&mut machine, claims(&room(), "alice", Some(1)));
    machine.publish(&first, camera(), NOW).unwrap();
    machine.publish(&first, microphone(), NOW).unwrap();
    machine.take_reports();
    assert_eq!(
        machine.begin_join(claims(&room(), "bob", Some(1)), NOW),
        Err(MachineError::RoomFull)
    );
    assert_eq!(take_names(&mut machine), []);

    let second = join(&mut machine, claims(&room(), "alice", Some(1)));
    let unpublished = ("unpublished", first.clone());
    assert_eq!(
        take_names(&mut machine),
        [
            unpublished.clone(),
            unpublished,
            ("left", first.clone()),
            ("joined", second.clone())
        ]
    );
    assert_eq!(machine.participants().len(), 1);
    assert_eq!(
        machine.active_or_left(&first).unwrap().participant.state,
        ParticipantState::Disconnected
    );
}

#[test]
fn replacing_the_only_participant_keeps_the_maximum() {
    let mut machine = sandbox_machine();
    join(&mut machine, claims(&room(), "alice", Some(1)));
    join(&mut machine, claims(&room(), "alice", Some(9)));
    assert_eq!(
        machine.begin_join(claims(&room(), "bob", Some(9)), NOW),
        Err(MachineError::RoomFull)
    );
}

#[test]
fn a_leave_ends_the_tracks_first_and_cannot_be_repeated() {
    let mut machine = sandbox_machine();
    let sid = joined(&mut machine, "alice");
    machine.publish(&sid, camera(), NOW).unwrap();
    machine.take_reports();
    machine.leave(&sid, Departure::Lost, NOW).unwrap();
    assert_eq!(
        take_names(&mut machine),
        [("unpublished", sid.clone()), ("aborted", sid.clone())]
    );
    assert_eq!(
        machine.leave(&sid, Departure::Left, NOW),
        Err(MachineError::NoSuchParticipant)
    );
    assert!(machine.is_unused());
}

#[test]
fn a_removed_participant_has_a_notice_in_its_inbox() {
    let mut machine = sandbox_machine();
    let sid = joined(&mut machine, "alice");
    assert!(machine.remove_participant(&sid, NOW) && !machine.remove_participant(&sid, NOW));
    assert_eq!(
        inbox(&machine, &sid),
        [InboxEntry {
            at: NOW,
            notice: Notice::Removed
        }]
    );
    assert_eq!(
        take_names(&mut machine),
        [("joined", sid.clone()), ("left", sid)]
    );
}

#[test]
fn closing_a_room_disconnects_its_participants() {
    let mut machine = sandbox_machine();
    let (alice, bob) = (joined(&mut machine, "alice"), joined(&mut machine, "bob"));
    machine.publish(&bob, camera(), NOW).unwrap();
    machine.take_reports();
    machine.close(NOW);
    machine.close(NOW);
    assert_eq!(
        take_names(&mut machine),
        [
            ("left", alice.clone()),
            ("unpublished", bob.clone()),
            ("left", bob.clone())
        ]
    );
    for sid in [alice, bob] {
        assert_eq!(
            inbox(&machine, &sid),
            [InboxEntry {
                at: NOW,
                notice: Notice::RoomEnded
            }]
        );
    }
}

#[test]
fn a_room_is_occupied_while_it_has_members_and_not_by_its_rules() {
    let mut machine = sandbox_machine();
    let guest: RoleName = "guest".parse().unwrap();
    machine.set_subscription_rules(BTreeMap::from([(guest, RoleSubscribe::default())]));
    let members = |machine: &Machine| machine.members().iter().count();
    assert_eq!((members(&machine), machine.is_unused()), (0, false));
    let sid = joined(&mut machine, "alice");
    assert_eq!(members(&machine), 1);
    machine.leave(&sid, Departure::Left, NOW).unwrap();
    assert_eq!((members(&machine), machine.is_unused()), (0, false));
}

#[test]
fn an_id_that_is_in_use_is_not_given_again() {
    let tried = std::cell::RefCell::new(Vec::new());
    let id: ParticipantSid = unused_id("PA_", |id: &ParticipantSid| {
        tried.borrow_mut().push(id.clone());
        tried.borrow().len() < 3
    });
    assert_eq!(
        (tried.borrow().len(), tried.borrow().last()),
        (3, Some(&id))
    );
}

#[test]
fn a_bounded_number_of_participants_that_left_is_kept() {
    let mut machine = sandbox_machine();
    let first = joined(&mut machine, "alice");
    machine.leave(&first, Departure::Left, NOW).unwrap();
    for _ in 0..999 {
        let sid = joined(&mut machine, "bob");
        machine.leave(&sid, Departure::Left, NOW).unwrap();
    }
    assert!(machine.active_or_left(&first).is_ok());
    let sid = joined(&mut machine, "bob");
    machine.leave(&sid, Departure::Left, NOW).unwrap();
    assert!(machine.active_or_left(&first).is_err() && machine.active_or_left(&sid).is_ok());
}

/// Joins and leaves `times` times, each time with as much own metadata as permitted. Returns the sids.
fn come_and_go(machine: &mut Machine, times: usize, metadata: &str) -> Vec<ParticipantSid> {
    let come_and_go = |_| {
        let sid = join(
            machine,
            Claims {
                metadata: metadata.to_owned(),
                ..claims(&room(), "alice", None)
            },
        );
        machine.leave(&sid, Departure::Left, NOW).unwrap();
        sid
    };
    (0..times).map(come_and_go).collect()
}

/// Proves S-50.
#[test]
fn participants_that_left_are_kept_within_a_bound_of_bytes() {
    let mut machine = sandbox_machine();
    let sids = come_and_go(&mut machine, 40, &"a".repeat(1024 * 1024));
    let kept = sids
        .iter()
        .filter(|sid| machine.active_or_left(sid).is_ok())
        .count();
    assert!((10..=16).contains(&kept), "{kept} MiB");
    assert!(
        machine.active_or_left(sids.last().unwrap()).is_ok(),
        "the last ones"
    );
    assert!(
        come_and_go(&mut machine, 1, &"a".repeat(20 * 1024 * 1024))
            .iter()
            .all(|sid| machine.active_or_left(sid).is_err())
    );
}

/// Proves S-50.
#[test]
fn nothing_is_kept_of_who_left_without_the_sandbox() {
    let mut machine = Machine::default();
    let stays = joined(&mut machine, "bob");
    let message = ServerData {
        data: vec![1],
        topic: None,
        kind: DataKind::Reliable,
        to: Vec::new(),
    };
    machine.send_server_data(message, NOW);
    assert_eq!(inbox(&machine, &stays), []);
    let sids = come_and_go(&mut machine, 3, "");
    assert!(sids.iter().all(|sid| machine.active_or_left(sid).is_err()));
}
