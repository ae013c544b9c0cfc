//! Joins and leaves, and participants that are kept after their leave.

use super::*;
use crate::embedded::ids::unused_id;

#[test]
fn a_join_is_reported_at_once_and_visible_once_it_is_complete() {
    let mut room_state = sandbox_room_state();
    let sid = room_state
        .start_join(claims(&room(), "alice", None), NOW)
        .unwrap();
    let reports = room_state.take_reports();
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
    assert_eq!(room_state.participants(), []);
    assert_eq!(
        room_state.publish(&sid, camera(), NOW),
        Err(RoomStateError::NoSuchParticipant)
    );

    room_state.complete_join(&sid, NOW);
    assert_eq!(room_state.participants(), [(**reported).clone()]);
    assert!(sid.as_str().starts_with("PA_") && sid.as_str().len() == 15);
}

#[test]
fn an_aborted_join_leaves_no_state() {
    let mut room_state = sandbox_room_state();
    let sid = room_state
        .start_join(claims(&room(), "alice", Some(1)), NOW)
        .unwrap();
    room_state.take_reports();
    room_state.abort_join(&sid, NOW);
    assert_eq!(take_names(&mut room_state), []);
    assert!(room_state.active_or_left(&sid).is_err() && room_state.is_unused());
    assert!(
        room_state
            .start_join(claims(&room(), "bob", Some(1)), NOW)
            .is_ok()
    );
}

#[test]
fn a_join_that_is_refused_after_its_room_was_closed_leaves_no_inbox() {
    let mut room_state = sandbox_room_state();
    let sid = room_state
        .start_join(claims(&room(), "alice", None), NOW)
        .unwrap();
    room_state.close(NOW);
    assert!(room_state.active_or_left(&sid).is_ok());
    room_state.abort_join(&sid, NOW);
    assert!(room_state.active_or_left(&sid).is_err());
}

#[test]
fn a_full_room_accepts_only_participants_that_replace_themselves() {
    let mut room_state = sandbox_room_state();
    let first = join(&mut room_state, claims(&room(), "alice", Some(1)));
    room_state.publish(&first, camera(), NOW).unwrap();
    room_state.publish(&first, microphone(), NOW).unwrap();
    room_state.take_reports();
    assert_eq!(
        room_state.start_join(claims(&room(), "bob", Some(1)), NOW),
        Err(RoomStateError::RoomFull)
    );
    assert_eq!(take_names(&mut room_state), []);

    let second = join(&mut room_state, claims(&room(), "alice", Some(1)));
    let unpublished = ("unpublished", first.clone());
    assert_eq!(
        take_names(&mut room_state),
        [
            unpublished.clone(),
            unpublished,
            ("left", first.clone()),
            ("joined", second.clone())
        ]
    );
    assert_eq!(room_state.participants().len(), 1);
    assert_eq!(
        room_state.active_or_left(&first).unwrap().participant.state,
        ParticipantState::Disconnected
    );
}

#[test]
fn replacing_the_only_participant_keeps_the_maximum() {
    let mut room_state = sandbox_room_state();
    join(&mut room_state, claims(&room(), "alice", Some(1)));
    join(&mut room_state, claims(&room(), "alice", Some(9)));
    assert_eq!(
        room_state.start_join(claims(&room(), "bob", Some(9)), NOW),
        Err(RoomStateError::RoomFull)
    );
}

#[test]
fn a_leave_ends_the_tracks_first_and_cannot_be_repeated() {
    let mut room_state = sandbox_room_state();
    let sid = joined(&mut room_state, "alice");
    room_state.publish(&sid, camera(), NOW).unwrap();
    room_state.take_reports();
    room_state.leave(&sid, Departure::Lost, NOW).unwrap();
    assert_eq!(
        take_names(&mut room_state),
        [("unpublished", sid.clone()), ("aborted", sid.clone())]
    );
    assert_eq!(
        room_state.leave(&sid, Departure::Left, NOW),
        Err(RoomStateError::NoSuchParticipant)
    );
    assert!(room_state.is_unused());
}

#[test]
fn a_removed_participant_has_a_notice_in_its_inbox() {
    let mut room_state = sandbox_room_state();
    let sid = joined(&mut room_state, "alice");
    assert!(room_state.remove_participant(&sid, NOW) && !room_state.remove_participant(&sid, NOW));
    assert_eq!(
        inbox(&room_state, &sid),
        [InboxEntry {
            at: NOW,
            notice: Notice::Removed
        }]
    );
    assert_eq!(
        take_names(&mut room_state),
        [("joined", sid.clone()), ("left", sid)]
    );
}

#[test]
fn closing_a_room_disconnects_its_participants() {
    let mut room_state = sandbox_room_state();
    let (alice, bob) = (
        joined(&mut room_state, "alice"),
        joined(&mut room_state, "bob"),
    );
    room_state.publish(&bob, camera(), NOW).unwrap();
    room_state.take_reports();
    room_state.close(NOW);
    room_state.close(NOW);
    assert_eq!(
        take_names(&mut room_state),
        [
            ("left", alice.clone()),
            ("unpublished", bob.clone()),
            ("left", bob.clone())
        ]
    );
    for sid in [alice, bob] {
        assert_eq!(
            inbox(&room_state, &sid),
            [InboxEntry {
                at: NOW,
                notice: Notice::RoomEnded
            }]
        );
    }
}

#[test]
fn a_room_is_occupied_while_it_has_members_and_not_by_its_rules() {
    let mut room_state = sandbox_room_state();
    let guest: RoleName = "guest".parse().unwrap();
    room_state.set_subscription_rules(BTreeMap::from([(guest, RoleSubscribe::default())]));
    let seats = |room_state: &RoomState| room_state.seats().iter().count();
    assert_eq!((seats(&room_state), room_state.is_unused()), (0, false));
    let sid = joined(&mut room_state, "alice");
    assert_eq!(seats(&room_state), 1);
    room_state.leave(&sid, Departure::Left, NOW).unwrap();
    assert_eq!((seats(&room_state), room_state.is_unused()), (0, false));
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
    let mut room_state = sandbox_room_state();
    let first = joined(&mut room_state, "alice");
    room_state.leave(&first, Departure::Left, NOW).unwrap();
    for _ in 0..999 {
        let sid = joined(&mut room_state, "bob");
        room_state.leave(&sid, Departure::Left, NOW).unwrap();
    }
    assert!(room_state.active_or_left(&first).is_ok());
    let sid = joined(&mut room_state, "bob");
    room_state.leave(&sid, Departure::Left, NOW).unwrap();
    assert!(room_state.active_or_left(&first).is_err() && room_state.active_or_left(&sid).is_ok());
}

/// Joins and leaves `times` times, each time with as much own metadata as permitted. Returns the sids.
fn come_and_go(room_state: &mut RoomState, times: usize, metadata: &str) -> Vec<ParticipantSid> {
    let come_and_go = |_| {
        let sid = join(
            room_state,
            Claims {
                metadata: metadata.to_owned(),
                ..claims(&room(), "alice", None)
            },
        );
        room_state.leave(&sid, Departure::Left, NOW).unwrap();
        sid
    };
    (0..times).map(come_and_go).collect()
}

/// Proves S-50.
#[test]
fn participants_that_left_are_kept_within_a_bound_of_bytes() {
    let mut room_state = sandbox_room_state();
    let sids = come_and_go(&mut room_state, 40, &"a".repeat(1024 * 1024));
    let kept = sids
        .iter()
        .filter(|sid| room_state.active_or_left(sid).is_ok())
        .count();
    assert!((10..=16).contains(&kept), "{kept} MiB");
    assert!(
        room_state.active_or_left(sids.last().unwrap()).is_ok(),
        "the last ones"
    );
    assert!(
        come_and_go(&mut room_state, 1, &"a".repeat(20 * 1024 * 1024))
            .iter()
            .all(|sid| room_state.active_or_left(sid).is_err())
    );
}

/// Proves S-50.
#[test]
fn nothing_is_kept_of_who_left_without_the_sandbox() {
    let mut room_state = RoomState::default();
    let stays = joined(&mut room_state, "bob");
    let message = ServerData {
        data: vec![1],
        topic: None,
        kind: DataKind::Reliable,
        to: Vec::new(),
    };
    room_state.send_server_data(message, NOW);
    assert_eq!(inbox(&room_state, &stays), []);
    let sids = come_and_go(&mut room_state, 3, "");
    assert!(
        sids.iter()
            .all(|sid| room_state.active_or_left(sid).is_err())
    );
}
