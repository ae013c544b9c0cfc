use conclave_media::MediaEvent;
use conclave_model::event::Departure;
use conclave_model::participant::ParticipantKind;
use conclave_model::{ProjectId, RoomId, SessionId};

use super::super::media_calls::Target;
use super::*;

fn sid(identity: &str) -> ParticipantSid {
    format!("PA_{identity}").parse().unwrap()
}

fn id(identity: &str) -> Identity {
    identity.parse().unwrap()
}

fn role(name: &str) -> RoleName {
    name.parse().unwrap()
}

fn connected(identity: &str, role: &str) -> ConnectedParticipant {
    ConnectedParticipant {
        session: SessionId::new(),
        identity: id(identity),
        sid: sid(identity),
        kind: ParticipantKind::Standard,
        role: Some(role.parse().unwrap()),
        joined_at: Timestamp::from_millis(0),
    }
}

/// An open room with a deadline.
fn snapshot(participants: &[(&str, &str)]) -> RoomSnapshot {
    let room = Room {
        id: RoomId::new(),
        project_id: ProjectId::new(),
        name: "standup".parse().unwrap(),
        max_participants: 0,
        empty_timeout_seconds: 60,
        metadata: None,
        status: RoomStatus::Open,
        template_id: None,
        created_at: Timestamp::from_millis(0),
        started_at: None,
        ended_at: None,
        empty_deadline: Some(Timestamp::from_millis(60_000)),
    };
    RoomSnapshot {
        room,
        participants: participants
            .iter()
            .map(|(who, role)| connected(who, role))
            .collect(),
    }
}

fn state(participants: &[(&str, &str)]) -> RoomState {
    RoomState::new(snapshot(participants).into())
}

#[test]
fn a_room_is_idle_while_it_is_open_and_empty_with_a_deadline_and_without_calls() {
    assert!(state(&[]).is_open() && state(&[]).is_idle());
    assert!(!state(&[("alice", "host")]).is_idle());
    let mut ended = state(&[]);
    ended.room.status = RoomStatus::Ended;
    assert!(!ended.is_open() && !ended.is_idle());
    let mut kept_open = state(&[]);
    kept_open.room.empty_deadline = None;
    assert!(!kept_open.is_idle());
    let mut calling = state(&[]);
    let call = calling.calls.begin(Target::Room).id;
    assert!(!calling.is_idle());
    calling.calls.end(call);
    assert!(calling.is_idle());
}

#[test]
fn a_room_whose_end_was_not_written_says_so() {
    let mut state = state(&[]);
    assert!(!state.end_failed());
    state.end_failed = true;
    assert!(state.end_failed());
}

#[test]
fn the_holders_of_a_role_are_counted_without_the_one_who_is_replaced() {
    let state = state(&[
        ("alice", "host"),
        ("bob", "host"),
        ("carol", "guest"),
        ("dave", "host"),
    ]);
    let holders = |name: &str, except: &str| state.holders(&role(name), &id(except));
    assert_eq!(
        (
            holders("host", "nobody"),
            holders("host", "alice"),
            holders("host", "carol")
        ),
        (3, 2, 3)
    );
    assert_eq!(
        (
            holders("guest", "nobody"),
            holders("guest", "carol"),
            holders("speaker", "nobody")
        ),
        (1, 0, 0)
    );
}

#[test]
fn a_participant_is_known_by_its_join_and_by_its_identity() {
    let state = state(&[("alice", "host"), ("bob", "guest")]);
    assert!(state.has_session(&sid("bob")) && !state.has_session(&sid("carol")));
    assert!(state.is_connected(&id("bob")) && !state.is_connected(&id("carol")));
    let present = |of: &str, who: &str| {
        state.is_present(&ParticipantRef {
            identity: id(who),
            sid: sid(of),
            role: None,
        })
    };
    assert!(present("alice", "alice") && present("bob", "bob"));
    assert!(!present("alice", "bob") && !present("carol", "bob") && !present("bob", "carol"));
}

#[test]
fn a_new_role_is_that_of_one_participant() {
    let mut state = state(&[("alice", "host"), ("bob", "host")]);
    state.set_role(&sid("bob"), &role("guest"));
    let roles: Vec<_> = state
        .participants
        .iter()
        .map(|participant| participant.role.clone().unwrap())
        .collect();
    assert_eq!(roles, [role("host"), role("guest")]);
}

#[test]
fn a_join_is_settled_after_its_grace_and_one_of_an_earlier_actor_at_once() {
    let (grace, at) = (Duration::from_secs(5), Duration::from_secs);
    let mut state = state(&[("alice", "host")]);
    state.joined(
        sid("bob"),
        at(10),
        snapshot(&[("alice", "host"), ("bob", "guest")]),
    );
    assert_eq!(state.settled(at(10), grace), [sid("alice")]);
    assert_eq!(state.settled(at(14), grace), [sid("alice")]);
    assert_eq!(state.settled(at(15), grace), [sid("alice"), sid("bob")]);
    state.joined(sid("dave"), at(20), snapshot(&[("dave", "guest")]));
    state.forget_join(&sid("dave"));
    assert!(
        state.recent_joins.is_empty(),
        "it is not kept until the next round"
    );
    state.joined(sid("carol"), at(20), snapshot(&[("carol", "guest")]));
    state.refresh(snapshot(&[("alice", "host"), ("carol", "guest")]));
    assert_eq!(state.settled(at(21), grace), [sid("alice")]);
}

#[test]
fn reports_about_a_participant_are_held_while_its_role_is_changed() {
    let left = |name: &str| {
        let participant = ParticipantRef {
            identity: id(name),
            sid: sid(name),
            role: None,
        };
        MediaEvent::ParticipantLeft {
            participant,
            departure: Departure::Left,
        }
    };
    let mut state = state(&[("alice", "host")]);
    let removal = state.calls.begin(Target::Participant(id("bob"))).id;
    let change = state.calls.begin(Target::RoleOf(id("alice"))).id;
    assert!(state.calls.holds_report(&left("alice")) && !state.calls.holds_report(&left("bob")));
    assert!(
        !state.calls.holds_report(&MediaEvent::InvalidIdentity) && state.calls.is_changing_role()
    );
    state.calls.end(change);
    assert!(!state.calls.holds_report(&left("alice")) && !state.calls.is_changing_role());
    state.calls.end(removal);
}
