//! Participants whose reports come faster than they can be written.

use conclave_media::{MediaEvent, ReportError, ReportReply};
use conclave_model::event::TrackSummary;
use conclave_model::participant::{TrackKind, TrackSource};

use super::fixture::{Fixture, participant_ref, run, wait_until};

impl Fixture {
    /// Reports that a participant publishes tracks, without waiting for results.
    fn publish(&self, identity: &str, tracks: usize) -> Vec<ReportReply> {
        let report = |number| {
            let track = TrackSummary {
                sid: format!("TR_{identity}{number}").parse().unwrap(),
                kind: TrackKind::Audio,
                source: TrackSource::Microphone,
                muted: false,
            };
            self.report(
                "stage",
                MediaEvent::TrackPublished {
                    participant: participant_ref(identity),
                    track,
                },
            )
        };
        (0..tracks).map(report).collect()
    }

    /// Removes a participant with 900 reports and ends its room. Returns whether each overtook some of them.
    async fn overtakes(&self) -> (bool, bool) {
        self.join("stage", "alice").await.unwrap().unwrap();
        let answers = self.publish("alice", 900);
        let (project, stage) = (self.project.clone(), "stage".parse().unwrap());
        assert!(
            self.tree
                .remove_participant(project.clone(), stage, "alice".parse().unwrap())
                .await
                .unwrap()
        );
        let by_removal = self.tree.reports().waiting() > 0;
        self.tree
            .end_room(project, "stage".parse().unwrap())
            .await
            .unwrap();
        assert_eq!(self.tree.reports().waiting(), 0);
        let mut taken = 0;
        let mut ended = 0;
        for answer in answers {
            match answer.await.unwrap() {
                Ok(()) => taken += 1,
                Err(error) => {
                    assert_eq!(error, ReportError::RoomEnded);
                    ended += 1;
                }
            }
        }
        assert_eq!(taken + ended, 900);
        (by_removal, ended > 0)
    }
}

/// Proves S-49.
#[test]
fn a_removal_and_the_end_of_a_room_do_not_wait_behind_reports() {
    run(async {
        let (mut by_removal, mut by_end) = (false, false);
        // If this thread was delayed, the reports were all written before.
        for _ in 0..20 {
            let (removal, end) = Fixture::new().await.overtakes().await;
            (by_removal, by_end) = (by_removal || removal, by_end || end);
            if by_removal && by_end {
                return;
            }
        }
        panic!("removal overtook reports: {by_removal}, end: {by_end}");
    });
}

/// Proves S-49.
#[test]
fn a_participant_that_fills_the_queue_of_its_room_is_removed_and_others_are_not_affected() {
    run(async {
        let fixture = Fixture::new().await;
        fixture.join("stage", "alice").await.unwrap().unwrap();
        let answers = fixture.publish("alice", 1_500);
        let bob = fixture.join("stage", "bob");
        let removals = async || fixture.plane.commands.lock().unwrap().clone();
        assert_eq!(
            wait_until(removals, |commands| !commands.is_empty()).await,
            ["remove PA_alice"]
        );
        bob.await.unwrap().unwrap();
        let mut refused = 0;
        for answer in answers {
            refused += usize::from(answer.await.unwrap() == Err(ReportError::Unavailable));
        }
        assert!((1..=500).contains(&refused), "{refused}");
        assert_eq!(removals().await, ["remove PA_alice"], "once");
        assert_eq!(fixture.open_sessions().await, ["alice", "bob"]);
    });
}
