//! Joins that a media plane requests before they happen.

use std::time::Duration;

use conclave_media::{MediaEvent, ReportError, ReportReply};
use conclave_model::Timestamp;
use conclave_model::participant::{Participant, ROLE_ATTRIBUTE};
use conclave_model::role::RoleSubscribe;
use serde_json::{Value, json};

use super::fixture::{Fixture, participant, participant_ref, run, sid};

/// Role that one participant can hold at a time.
const SOLOIST: &str = "soloist";

impl Fixture {
    /// Requests a join to "stage" with a role, and a seat.
    fn request(&self, identity: &str, role: &str) -> ReportReply {
        self.ask(
            "stage",
            participant_with(identity, role, self.clock.now()),
            true,
        )
    }

    fn ask(&self, room: &str, participant: Participant, reserves_seat: bool) -> ReportReply {
        self.report(
            room,
            MediaEvent::JoinRequested {
                participant: Box::new(participant),
                reserves_seat,
            },
        )
    }

    /// Reports that an identity has joined "stage" with a role.
    fn join_with(&self, identity: &str, role: &str) -> ReportReply {
        let participant = participant_with(identity, role, self.clock.now());
        self.plane
            .participants
            .lock()
            .unwrap()
            .push((self.room("stage"), participant.clone()));
        self.report(
            "stage",
            MediaEvent::ParticipantJoined(Box::new(participant)),
        )
    }

    fn abort(&self, identity: &str) -> ReportReply {
        self.report(
            "stage",
            MediaEvent::JoinAborted {
                participant: participant_ref(identity),
            },
        )
    }

    async fn reserved(&self) -> Value {
        self.actor("stage").await.state["reserved"].clone()
    }
}

fn participant_with(identity: &str, role: &str, at: Timestamp) -> Participant {
    let mut participant = participant(identity, at);
    participant
        .attributes
        .insert(ROLE_ATTRIBUTE.to_owned(), role.to_owned());
    participant
}

#[test]
fn a_seat_is_counted_until_its_participant_has_joined_and_no_record_is_written_before() {
    run(async {
        let fixture = Fixture::new().await;
        let mut events = fixture.relay.watch();
        fixture.request("alice", SOLOIST).await.unwrap().unwrap();
        assert_eq!(
            fixture.request("bob", SOLOIST).await.unwrap(),
            Err(ReportError::RoleFull)
        );
        assert_eq!(
            (fixture.reserved().await, fixture.open_sessions().await),
            (json!(["alice"]), vec![])
        );
        assert!(events.try_recv().is_err(), "a request causes no event");

        fixture.join_with("alice", SOLOIST).await.unwrap().unwrap();
        assert_eq!(
            (fixture.reserved().await, fixture.open_sessions().await),
            (json!([]), vec!["alice".to_owned()])
        );
        assert_eq!(
            fixture.request("bob", SOLOIST).await.unwrap(),
            Err(ReportError::RoleFull)
        );
        assert_eq!(events.recv().await.unwrap().event_type, "room.started");
        assert_eq!(
            events.recv().await.unwrap().event_type,
            "participant.joined"
        );
    });
}

#[test]
fn the_rules_of_the_roles_are_in_force_before_a_participant_is_admitted() {
    run(async {
        let fixture = Fixture::new().await;
        let rules = || fixture.plane.rules.lock().unwrap().clone();
        fixture
            .ask(
                "stage",
                participant_with("alice", "host", fixture.clock.now()),
                false,
            )
            .await
            .unwrap()
            .unwrap();
        assert!(
            rules().is_empty(),
            "a request without a seat changes nothing"
        );
        fixture.request("alice", "host").await.unwrap().unwrap();
        let limited: Vec<_> = rules()
            .into_iter()
            .map(|(role, rule)| (role.to_string(), rule))
            .collect();
        let guest = RoleSubscribe {
            to_roles: Some(vec!["host".parse().unwrap()]),
            max_kbps: None,
        };
        let viewer = RoleSubscribe {
            to_roles: None,
            max_kbps: Some(500.try_into().unwrap()),
        };
        assert_eq!(
            limited,
            [("guest".to_owned(), guest), ("viewer".to_owned(), viewer)]
        );
    });
}

#[test]
fn a_join_of_another_does_not_take_a_reserved_seat() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.request("alice", SOLOIST).await.unwrap().unwrap();
        assert_eq!(
            fixture.join_with("bob", SOLOIST).await.unwrap(),
            Err(ReportError::RoleFull)
        );
        fixture.join_with("alice", SOLOIST).await.unwrap().unwrap();
    });
}

#[test]
fn a_join_that_is_aborted_releases_its_seat_and_is_one_event() {
    run(async {
        let fixture = Fixture::new().await;
        let mut events = fixture.relay.watch();
        fixture.request("alice", SOLOIST).await.unwrap().unwrap();
        fixture.abort("alice").await.unwrap().unwrap();
        fixture.request("bob", SOLOIST).await.unwrap().unwrap();
        assert_eq!(
            events.try_recv().unwrap().event_type,
            "participant.connection_aborted"
        );
        assert!(events.try_recv().is_err());
        // The room may just have started to hibernate; a participant that requests a join then gets
        // a seat as well.
        fixture
            .until("stage", |actor| actor.state["reserved"] == json!(["bob"]))
            .await;
        assert!(fixture.open_sessions().await.is_empty());
    });
}

#[test]
fn a_seat_that_is_not_taken_is_free_after_a_minute_and_the_room_then_hibernates() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.request("alice", SOLOIST).await.unwrap().unwrap();
        fixture.clock.advance(Duration::from_millis(59_999));
        assert_eq!(
            fixture.request("bob", SOLOIST).await.unwrap(),
            Err(ReportError::RoleFull)
        );
        assert_eq!(
            fixture.actor("stage").await.status,
            "running",
            "a room with a reserved seat does not hibernate"
        );
        fixture.clock.advance(Duration::from_millis(1));
        fixture
            .until("stage", |actor| actor.status == "hibernating")
            .await;
        fixture.request("bob", SOLOIST).await.unwrap().unwrap();
    });
}

#[test]
fn a_newer_join_of_the_same_identity_has_the_seat() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.request("alice", SOLOIST).await.unwrap().unwrap();
        let again = Participant {
            sid: sid("alice2"),
            ..participant_with("alice", SOLOIST, fixture.clock.now())
        };
        fixture.ask("stage", again, true).await.unwrap().unwrap();
        // The end of the earlier join does not release the seat of the newer one.
        fixture.abort("alice").await.unwrap().unwrap();
        assert_eq!(
            fixture.request("bob", SOLOIST).await.unwrap(),
            Err(ReportError::RoleFull)
        );
    });
}

#[test]
fn a_question_without_a_seat_repeats_the_verdict_and_keeps_nothing() {
    run(async {
        let fixture = Fixture::new().await;
        let ask = |identity, role| {
            fixture.ask(
                "stage",
                participant_with(identity, role, fixture.clock.now()),
                false,
            )
        };
        ask("alice", SOLOIST).await.unwrap().unwrap();
        fixture
            .until("stage", |actor| actor.status == "hibernating")
            .await;
        fixture.request("bob", SOLOIST).await.unwrap().unwrap();
        assert_eq!(
            ask("alice", SOLOIST).await.unwrap(),
            Err(ReportError::RoleFull)
        );
        assert_eq!(
            ask("alice", "deleted").await.unwrap(),
            Err(ReportError::RoleRemoved)
        );
    });
}

#[test]
fn nobody_is_let_into_a_room_that_has_ended_or_has_no_record() {
    run(async {
        let fixture = Fixture::new().await;
        fixture
            .tree
            .end_room(fixture.project.clone(), "stage".parse().unwrap())
            .await
            .unwrap();
        assert_eq!(
            fixture.request("alice", "host").await.unwrap(),
            Err(ReportError::RoomEnded)
        );
        let alice = participant("alice", fixture.clock.now());
        assert_eq!(
            fixture.ask("nowhere", alice, true).await.unwrap(),
            Err(ReportError::UnknownRoom)
        );
    });
}

#[test]
fn a_room_that_was_rebuilt_has_lost_its_seats_and_decides_again_when_a_participant_has_joined() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.request("alice", SOLOIST).await.unwrap().unwrap();
        fixture.fail("stage").await;
        let second = fixture.request("bob", SOLOIST);
        fixture.clock.advance(Duration::from_millis(100));
        second.await.unwrap().unwrap();
        assert_eq!(fixture.reserved().await, json!(["bob"]));
        let mut events = fixture.relay.watch();
        assert_eq!(
            fixture.join_with("alice", SOLOIST).await.unwrap(),
            Err(ReportError::RoleFull)
        );
        assert_eq!(
            events.recv().await.unwrap().event_type,
            "participant.connection_aborted"
        );
        fixture.join_with("bob", SOLOIST).await.unwrap().unwrap();
        assert_eq!(fixture.open_sessions().await, ["bob"]);
    });
}
