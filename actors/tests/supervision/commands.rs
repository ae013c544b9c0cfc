//! Commands to participants on a media plane that hangs.

use std::time::Duration;

use conclave_actors::TreeError;
use conclave_actors::room::{ChangeRoleRequest, MuteTrackRequest};
use conclave_media::{MediaEvent, MuteOutcome, ServerData};
use conclave_model::event::ChangedBy;
use conclave_model::event::Departure;
use conclave_model::participant::DataKind;
use conclave_model::role_change::RoleChanged;
use tokio::task::JoinHandle;

use super::fixture::{Fixture, participant_ref, run, wait_until};

type Pending<T> = JoinHandle<Result<T, TreeError>>;

impl Fixture {
    fn remove(&self, identity: &str) -> Pending<bool> {
        let (tree, project, identity) = (
            self.tree.clone(),
            self.project.clone(),
            identity.parse().unwrap(),
        );
        tokio::spawn(async move {
            tree.remove_participant(project, "stage".parse().unwrap(), identity)
                .await
        })
    }

    fn mute(&self, identity: &str) -> Pending<MuteOutcome> {
        let (tree, project) = (self.tree.clone(), self.project.clone());
        let request = MuteTrackRequest {
            identity: identity.parse().unwrap(),
            track: "TR_1".parse().unwrap(),
            muted: true,
        };
        tokio::spawn(async move {
            tree.mute_track(project, "stage".parse().unwrap(), request)
                .await
        })
    }

    fn send_data(&self) -> Pending<()> {
        let (tree, project) = (self.tree.clone(), self.project.clone());
        let data = ServerData {
            data: b"hello".to_vec(),
            topic: None,
            kind: DataKind::Reliable,
            to: Vec::new(),
        };
        tokio::spawn(async move {
            tree.send_data(project, "stage".parse().unwrap(), data)
                .await
        })
    }

    fn change_role(&self, identity: &str) -> Pending<RoleChanged> {
        let (tree, project) = (self.tree.clone(), self.project.clone());
        let request = ChangeRoleRequest {
            identity: identity.parse().unwrap(),
            role: "guest".parse().unwrap(),
            by: ChangedBy::ApiKey("vk_test_0123".parse().unwrap()),
        };
        tokio::spawn(async move {
            tree.change_role(project, "stage".parse().unwrap(), request, None)
                .await
        })
    }

    fn leave(&self, identity: &str) -> conclave_media::ReportReply {
        self.plane
            .participants
            .lock()
            .unwrap()
            .retain(|(_, inside)| inside.identity.as_str() != identity);
        self.report(
            "stage",
            MediaEvent::ParticipantLeft {
                participant: participant_ref(identity),
                departure: Departure::Left,
            },
        )
    }

    /// Waits until exactly these commands have started on the media plane.
    async fn until_begun(&self, commands: &[&str]) {
        wait_until(
            async || self.plane.commands.lock().unwrap().clone(),
            |begun| begun == commands,
        )
        .await;
    }

    async fn recent_messages(&self) -> Vec<&'static str> {
        self.actor("stage")
            .await
            .history
            .unwrap()
            .into_iter()
            .map(|handled| handled.message)
            .collect()
    }
}

/// Proves F-14.
#[test]
fn a_media_plane_that_hangs_does_not_keep_a_room_from_handling_joins_leaves_and_snapshots() {
    run(async {
        let fixture = Fixture::new().await;
        for identity in ["alice", "bob", "carol"] {
            fixture.join("stage", identity).await.unwrap().unwrap();
        }
        fixture.plane.hang();
        *fixture.plane.accepts_roles.lock().unwrap() = true;
        let removed = fixture.remove("alice");
        fixture.until_begun(&["remove PA_alice"]).await;
        let role = fixture.change_role("bob");
        fixture.until_begun(&["remove PA_alice", "role bob"]).await;
        let sent = fixture.send_data();
        fixture
            .until_begun(&["remove PA_alice", "role bob", "send"])
            .await;

        fixture.join("stage", "dora").await.unwrap().unwrap();
        fixture.leave("carol").await.unwrap().unwrap();
        fixture.leave("alice").await.unwrap().unwrap();
        assert_eq!(fixture.actor("stage").await.status, "running");
        assert_eq!(fixture.open_sessions().await, ["bob", "dora"]);
        assert!(!removed.is_finished() && !role.is_finished() && !sent.is_finished());

        fixture.plane.release(3);
        assert!(removed.await.unwrap().unwrap());
        assert_eq!(role.await.unwrap().unwrap().change.role.as_str(), "guest");
        sent.await.unwrap().unwrap();
        let participants = serde_json::json!({"guest": ["bob"], "host": ["dora"]});
        assert_eq!(
            fixture.actor("stage").await.state["participants"],
            participants
        );
    });
}

#[test]
fn commands_are_among_the_recent_messages_of_their_room() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.join("stage", "alice").await.unwrap().unwrap();
        assert!(fixture.remove("alice").await.unwrap().unwrap());
        assert!(matches!(
            fixture.mute("alice").await.unwrap(),
            Ok(MuteOutcome::NoSuchTrack)
        ));
        fixture.send_data().await.unwrap().unwrap();
        let messages = fixture.recent_messages().await;
        let commands = ["remove_participant", "mute_track", "send_data"];
        let handled: Vec<_> = messages
            .into_iter()
            .filter(|message| commands.contains(message))
            .collect();
        assert_eq!(handled, commands);
    });
}

#[test]
fn commands_to_one_participant_run_one_after_another() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.join("stage", "alice").await.unwrap().unwrap();
        fixture.plane.hang();
        let first = fixture.mute("alice");
        fixture.until_begun(&["mute alice"]).await;
        let second = fixture.remove("alice");
        wait_until(
            async || fixture.recent_messages().await,
            |seen| seen.contains(&"remove_participant"),
        )
        .await;
        let other = fixture.mute("bob");
        fixture.until_begun(&["mute alice", "mute bob"]).await;

        fixture.plane.release(2);
        first.await.unwrap().unwrap();
        other.await.unwrap().unwrap();
        fixture
            .until_begun(&["mute alice", "mute bob", "remove PA_alice"])
            .await;
        fixture.plane.release(1);
        assert!(second.await.unwrap().unwrap());
    });
}

#[test]
fn reports_about_a_participant_wait_for_a_change_of_its_role() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.join("stage", "alice").await.unwrap().unwrap();
        fixture.plane.hang();
        *fixture.plane.accepts_roles.lock().unwrap() = true;
        let role = fixture.change_role("alice");
        fixture.until_begun(&["role alice"]).await;
        let left = fixture.report(
            "stage",
            MediaEvent::ParticipantLeft {
                participant: participant_ref("alice"),
                departure: Departure::Left,
            },
        );
        fixture.join("stage", "bob").await.unwrap().unwrap();
        assert_eq!(fixture.open_sessions().await, ["alice", "bob"]);

        fixture.plane.release(1);
        // A role change for a participant that has left would be refused.
        assert_eq!(role.await.unwrap().unwrap().change.role.as_str(), "guest");
        left.await.unwrap().unwrap();
        assert_eq!(fixture.open_sessions().await, ["bob"]);
    });
}

#[test]
fn a_hibernating_room_asks_the_media_plane_and_hibernates_again() {
    run(async {
        let fixture = Fixture::new().await;
        assert_eq!(fixture.actor("stage").await.status, "hibernating");
        fixture.plane.hang();
        let muted = fixture.mute("alice");
        fixture.until_begun(&["mute alice"]).await;
        assert_eq!(fixture.actor("stage").await.status, "running");
        fixture.plane.release(1);
        assert!(matches!(muted.await.unwrap(), Ok(MuteOutcome::NoSuchTrack)));
        assert!(!fixture.remove("alice").await.unwrap().unwrap());
        fixture
            .until("stage", |actor| actor.status == "hibernating")
            .await;
    });
}

#[test]
fn a_command_is_answered_when_its_room_ends_or_fails_meanwhile() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.join("stage", "alice").await.unwrap().unwrap();
        fixture.plane.hang();
        let removed = fixture.remove("alice");
        fixture.until_begun(&["remove PA_alice"]).await;
        fixture.fail("stage").await;
        fixture.plane.release(1);
        fixture.clock.advance(Duration::from_millis(100));
        assert!(removed.await.unwrap().unwrap());

        fixture.plane.commands.lock().unwrap().clear();
        let (muted, role) = (fixture.mute("bob"), fixture.change_role("alice"));
        wait_until(
            async || fixture.plane.commands.lock().unwrap().len(),
            |begun| *begun == 2,
        )
        .await;
        fixture
            .tree
            .end_room(fixture.project.clone(), "stage".parse().unwrap())
            .await
            .unwrap();
        fixture.plane.release(2);
        assert!(matches!(muted.await.unwrap(), Ok(MuteOutcome::NoSuchTrack)));
        assert!(matches!(role.await.unwrap(), Err(TreeError::Media(_))));
        assert!(
            !fixture.remove("alice").await.unwrap().unwrap(),
            "an ended room has no participants"
        );
    });
}
