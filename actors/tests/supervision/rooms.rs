//! Rooms whose actor fails.

use std::sync::atomic::Ordering;
use std::time::Duration;

use conclave_actors::TreeError;
use conclave_actors::room::ChangeRoleRequest;
use conclave_media::MediaEvent;
use conclave_model::event::ChangedBy;
use conclave_model::event::Departure;
use conclave_model::page::PageRequest;

use super::fixture::{Fixture, participant, participant_ref, room, run, wait_until};

/// Proves R-11.
#[test]
fn a_failed_room_is_rebuilt_with_its_participants() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.join("stage", "alice").await.unwrap().unwrap();
        fixture.clock.advance(Duration::from_secs(30));
        fixture.fail("stage").await;
        let failed = fixture.actor("stage").await;
        let failure = failed.last_failure.expect("a failure in its info");
        assert_eq!((failed.restarts, failure.at), (1, fixture.clock.now()));
        assert!(
            failure.reason.contains("the plane was told to panic"),
            "{}",
            failure.reason
        );

        fixture.clock.advance(Duration::from_millis(100));
        let back = fixture
            .until("stage", |actor| actor.status == "running")
            .await;
        assert_eq!(
            back.state["participants"],
            serde_json::json!({"host": ["alice"]})
        );
        assert_eq!((back.restarts, back.started_at), (1, fixture.clock.now()));
        assert!(back.last_failure.is_some(), "the failure is kept");
        assert_eq!(fixture.open_sessions().await, ["alice"]);
    });
}

#[test]
fn a_room_is_shown_with_its_media_or_without_if_the_media_plane_does_not_answer() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.join("stage", "alice").await.unwrap().unwrap();
        assert_eq!(
            fixture.actor("stage").await.media,
            Some(serde_json::json!([{"identity": "alice"}]))
        );
        fixture.plane.inspection_hangs.store(true, Ordering::SeqCst);
        let shown = fixture.actor("stage").await;
        assert_eq!(
            (shown.media, shown.status),
            (Some(serde_json::Value::Null), "running")
        );
    });
}

#[test]
fn messages_to_a_failed_room_wait_and_are_handled_in_order() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.fail("stage").await;
        let answers = [
            fixture.join("stage", "bob"),
            fixture.join("stage", "carol"),
            fixture.report(
                "stage",
                MediaEvent::ParticipantLeft {
                    participant: participant_ref("bob"),
                    departure: Departure::Left,
                },
            ),
        ];
        fixture
            .plane
            .participants
            .lock()
            .unwrap()
            .retain(|(_, participant)| participant.identity.as_str() != "bob");
        fixture.clock.advance(Duration::from_millis(100));
        for answer in answers {
            answer.await.unwrap().unwrap();
        }
        assert_eq!(fixture.open_sessions().await, ["carol"]);
    });
}

#[test]
fn a_join_that_waited_for_its_room_is_not_lost_while_it_completes_on_the_media_plane() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.fail("stage").await;
        // The media plane lists a participant once it has the reply.
        let joined = Box::new(participant("bob", fixture.clock.now()));
        let answer = fixture.report("stage", MediaEvent::ParticipantJoined(joined));
        fixture.clock.advance(Duration::from_millis(100));
        answer.await.unwrap().unwrap();
        fixture.reconciled("stage").await;
        assert_eq!(fixture.open_sessions().await, ["bob"]);
        // A participant that is not listed for some time is lost.
        fixture.clock.advance(Duration::from_secs(61));
        wait_until(async || fixture.open_sessions().await, Vec::is_empty).await;
    });
}

#[test]
fn a_room_can_be_ended_while_it_waits_to_be_rebuilt() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.fail("stage").await;
        let (tree, project) = (fixture.tree.clone(), fixture.project.clone());
        let ending =
            tokio::spawn(async move { tree.end_room(project, "stage".parse().unwrap()).await });
        fixture.clock.advance(Duration::from_millis(100));
        ending.await.unwrap().unwrap();
        let room = fixture
            .store
            .rooms()
            .get(fixture.project.clone(), "stage".parse().unwrap())
            .await
            .unwrap();
        assert_eq!(room.status.as_str(), "ended");
    });
}

#[test]
fn the_delay_doubles_with_each_failure_in_a_row_and_starts_over_after_a_minute() {
    run(async {
        let fixture = Fixture::new().await;
        // An empty room would hibernate.
        fixture.join("stage", "alice").await.unwrap().unwrap();
        for (restarts, delay) in [(1, 100), (2, 200), (3, 400), (4, 800)] {
            fixture.fail("stage").await;
            fixture.clock.advance(Duration::from_millis(delay - 1));
            // Messages sent by woken timers are handled before the project replies.
            let project = fixture.tree.actor(fixture.project.as_str()).await.unwrap();
            assert_eq!(project.status, "running");
            assert_eq!(
                fixture.actor("stage").await.status,
                "restarting",
                "not before {delay} ms"
            );
            fixture.clock.advance(Duration::from_millis(1));
            fixture
                .until("stage", |actor| {
                    actor.status == "running" && actor.restarts == restarts
                })
                .await;
        }
        fixture.clock.advance(Duration::from_secs(60));
        fixture.fail("stage").await;
        fixture.clock.advance(Duration::from_millis(100));
        fixture
            .until("stage", |actor| {
                actor.status == "running" && actor.restarts == 5
            })
            .await;
    });
}

/// Proves R-4.
#[test]
fn a_rebuilt_room_still_ends_at_its_deadline() {
    run(async {
        let fixture = Fixture::new().await;
        let deadline = fixture.clock.now().after(Duration::from_secs(3_600));
        fixture.fail("stage").await;
        fixture.clock.advance(Duration::from_millis(100));
        // The room is empty, so it hibernates until then.
        let back = fixture
            .until("stage", |actor| actor.status == "hibernating")
            .await;
        assert_eq!(
            back.timers
                .iter()
                .map(|timer| timer.fires_at)
                .collect::<Vec<_>>(),
            [deadline]
        );
    });
}

/// Proves R-11.
#[test]
fn a_failure_does_not_reach_siblings_or_the_project() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.join("sibling", "dora").await.unwrap().unwrap();
        let before = fixture.actor("sibling").await;
        fixture.clock.advance(Duration::from_secs(1));
        fixture.fail("stage").await;
        // The sibling continues while the other is down.
        fixture.join("sibling", "emil").await.unwrap().unwrap();
        let after = fixture.actor("sibling").await;
        assert_eq!(
            (after.status, after.restarts, after.started_at),
            ("running", 0, before.started_at)
        );
        assert!(after.last_failure.is_none());
        let project = fixture.tree.actor(fixture.project.as_str()).await.unwrap();
        assert_eq!((project.status, project.restarts), ("running", 0));
        assert_eq!(project.state["open_rooms"], 2);
        assert_eq!(fixture.open_sessions().await, ["dora", "emil"]);
    });
}

#[test]
fn a_role_change_that_the_media_plane_refuses_is_not_written() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.join("stage", "alice").await.unwrap().unwrap();
        let wanted = |identity: &str, role: &str| ChangeRoleRequest {
            identity: identity.parse().unwrap(),
            role: role.parse().unwrap(),
            by: ChangedBy::ApiKey("vk_test_0123".parse().unwrap()),
        };
        let change = |wanted| {
            fixture.tree.change_role(
                fixture.project.clone(),
                "stage".parse().unwrap(),
                wanted,
                None,
            )
        };
        assert!(matches!(
            change(wanted("alice", "guest")).await,
            Err(TreeError::Media(_))
        ));
        assert!(
            matches!(
                change(wanted("bob", "guest")).await,
                Err(TreeError::Refused(_))
            ),
            "the media plane got no call"
        );
        assert_eq!(
            fixture.actor("stage").await.state["participants"],
            serde_json::json!({"host": ["alice"]})
        );
        let room = fixture
            .store
            .rooms()
            .get(fixture.project.clone(), "stage".parse().unwrap())
            .await
            .unwrap();
        let page = PageRequest {
            limit: 50,
            offset: 0,
        };
        let log = fixture
            .store
            .role_changes()
            .list(fixture.project.clone(), room.id, None, page)
            .await
            .unwrap();
        assert_eq!(log.items, []);
    });
}

/// Proves R-49, S-61.
#[test]
fn rooms_that_come_due_together_are_ended_in_turns() {
    run(async {
        let fixture = Fixture::new().await;
        for number in 0..100 {
            fixture
                .tree
                .create_room(room(&fixture.project, &format!("due-{number}")), None, None)
                .await
                .unwrap();
        }
        let at_once = fixture.room_ends.free();
        let mut held = Vec::new();
        while fixture.room_ends.free() > 0 {
            held.push(fixture.room_ends.wait(&fixture.project).await);
        }
        fixture.clock.advance(Duration::from_secs(3_601));
        let project = async || fixture.tree.actor(fixture.project.as_str()).await.unwrap();
        // The rooms are due, and their project waits for a permit.
        wait_until(project, |project| {
            project
                .timers
                .iter()
                .all(|timer| timer.name != "hibernation")
        })
        .await;
        assert_eq!(project().await.state["rooms_hibernating"], 102);

        held.truncate(1);
        wait_until(project, |project| project.state["open_rooms"] == 0).await;
        drop(held);
        wait_until(async || fixture.room_ends.free(), |free| *free == at_once).await;
    });
}
