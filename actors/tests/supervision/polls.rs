//! Egress and ingress actors: effects of reports and of replies to polls, when they poll again, and their snapshots.

use std::time::Duration;

use conclave_actors::debug::ActorView;
use conclave_db::DeliveryFilter;
use conclave_media::MediaEvent;
use conclave_model::Secret;
use conclave_model::egress::EgressStatus;
use conclave_model::event::TrackSummary;
use conclave_model::ingress::IngressStatus;
use conclave_model::page::PageRequest;
use conclave_model::participant::{TrackKind, TrackSource};
use serde_json::json;

use super::fixture::{Fixture, participant_ref, run, wait_until};
use super::followed::{DELAY, egress_path, ingress_path};

/// Interval at which an egress that should soon be final is polled.
const SETTLE: Duration = Duration::from_secs(5);

impl Fixture {
    async fn end_stage(&self) {
        self.tree
            .end_room(self.project.clone(), "stage".parse().unwrap())
            .await
            .unwrap();
    }

    /// Returns the types of the events queued for delivery, in order.
    async fn queued_events(&self) -> Vec<String> {
        let page = PageRequest {
            limit: 50,
            offset: 0,
        };
        let queued = self
            .store
            .deliveries()
            .list(self.project.clone(), DeliveryFilter::default(), page)
            .await
            .unwrap();
        queued
            .items
            .into_iter()
            .rev()
            .map(|delivery| delivery.event_type)
            .collect()
    }
}

fn timers(child: &ActorView) -> Vec<&str> {
    child.timers.iter().map(|timer| timer.name).collect()
}

/// Messages that an actor has handled, except requests for this snapshot.
fn messages(child: &ActorView) -> Vec<&str> {
    child
        .history
        .iter()
        .flatten()
        .map(|handled| handled.message)
        .filter(|message| *message != "inspect")
        .collect()
}

#[test]
fn the_last_answer_of_the_media_plane_is_shown_with_its_error() {
    run(async {
        let fixture = Fixture::new().await;
        let (egress, ingress) = (
            fixture.start_recording().await,
            fixture.create_ingress().await,
        );
        fixture.plane.egresses.lock().unwrap()[0].error = Some("a slow disk".into());
        fixture.plane.ingresses.lock().unwrap()[0].error = Some("no picture".into());
        fixture.set_ingress(&ingress, IngressStatus::Error);
        fixture.refresh_egress(&egress).await.unwrap();
        let refreshed = fixture.refresh_ingress(&ingress).await.unwrap();
        assert_eq!(
            (refreshed.status, refreshed.error.as_deref()),
            (IngressStatus::Error, Some("no picture"))
        );

        let shown =
            async |path: String| fixture.child(&path).await.unwrap().state["last_answer"].clone();
        let at = fixture.clock.now().to_string();
        let expected = json!({"at": at, "status": "starting", "error": "a slow disk"});
        assert_eq!(shown(egress_path(&egress)).await, expected);
        let expected = json!({"at": at, "status": "error", "error": "no picture"});
        assert_eq!(shown(ingress_path(&ingress)).await, expected);
    });
}

#[test]
fn an_egress_is_polled_while_it_ends_and_after_its_room_has_ended() {
    run(async {
        let fixture = Fixture::new().await;
        let id = fixture.start_recording().await;
        let path = egress_path(&id);
        let active = fixture.set_egress(&id, EgressStatus::Active);
        fixture
            .report("stage", MediaEvent::Egress(active))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            timers(&fixture.child(&path).await.unwrap()),
            [""; 0],
            "nothing is awaited of an active egress"
        );

        fixture.end_stage().await;
        let ended =
            |child: &ActorView| child.state["room_open"] == false && timers(child) == ["settle"];
        fixture
            .child_until(&path, |child| child.is_some_and(ended))
            .await;
        assert_eq!(fixture.egress(&id).await.status, EgressStatus::Active);
        fixture.clock.advance(SETTLE);
        let ending =
            |child: &ActorView| child.state["status"] == "ending" && timers(child) == ["settle"];
        fixture
            .child_until(&path, |child| child.is_some_and(ending))
            .await;

        // This is not reported.
        fixture.set_egress(&id, EgressStatus::Complete);
        fixture.clock.advance(SETTLE);
        fixture.child_until(&path, |child| child.is_none()).await;
        assert_eq!(fixture.egress(&id).await.status, EgressStatus::Complete);
    });
}

#[test]
fn an_egress_that_the_media_plane_does_not_know_has_failed() {
    run(async {
        let fixture = Fixture::new().await;
        let id = fixture.start_recording().await;
        fixture.plane.egresses.lock().unwrap().clear();
        let failed = fixture.refresh_egress(&id).await.unwrap();
        assert_eq!(
            (failed.status, failed.ended_at),
            (EgressStatus::Failed, Some(fixture.clock.now()))
        );
        assert!(
            failed
                .error
                .unwrap()
                .contains("no longer knows this egress")
        );
    });
}

#[test]
fn an_ingress_is_written_after_what_its_encoder_did_in_the_room() {
    run(async {
        let fixture = Fixture::new().await;
        let (project, url) = (
            fixture.project.clone(),
            "https://receiver.example.com/".to_owned(),
        );
        fixture
            .store
            .webhook_endpoints()
            .create(project, url, Secret::new("whsec_"), None)
            .await
            .unwrap();
        let id = fixture.create_ingress().await;
        let publishing = fixture.set_ingress(&id, IngressStatus::Publishing);
        let (sid, kind, source) = (
            "TR_1".parse().unwrap(),
            TrackKind::Video,
            TrackSource::Camera,
        );
        let track = TrackSummary {
            sid,
            kind,
            source,
            muted: false,
        };
        let published = MediaEvent::TrackPublished {
            participant: participant_ref("encoder"),
            track,
        };
        let answers = [
            fixture.join("stage", "encoder"),
            fixture.report("stage", published),
            fixture.report("stage", MediaEvent::Ingress(publishing)),
        ];
        for answer in answers {
            answer.await.unwrap().unwrap();
        }
        let expected = [
            "room.started",
            "participant.joined",
            "track.published",
            "ingress.started",
        ];
        assert_eq!(fixture.queued_events().await, expected);
    });
}

#[test]
fn only_an_answer_that_changes_an_ingress_is_written() {
    run(async {
        let fixture = Fixture::new().await;
        let id = fixture.create_ingress().await;
        let path = ingress_path(&id);
        assert_eq!(
            fixture.refresh_ingress(&id).await.unwrap().status,
            IngressStatus::Inactive
        );
        assert_eq!(messages(&fixture.child(&path).await.unwrap()), ["refresh"]);
        // This is not reported.
        fixture.set_ingress(&id, IngressStatus::Publishing);
        assert_eq!(
            fixture.refresh_ingress(&id).await.unwrap().status,
            IngressStatus::Publishing
        );
        assert_eq!(
            fixture.refresh_ingress(&id).await.unwrap().status,
            IngressStatus::Publishing
        );
        assert_eq!(
            messages(&fixture.child(&path).await.unwrap()),
            ["refresh", "refresh", "observed", "refresh"]
        );
    });
}

#[test]
fn a_poll_that_brings_nothing_new_is_not_written() {
    run(async {
        let fixture = Fixture::new().await;
        let id = fixture.create_ingress().await;
        let path = ingress_path(&id);
        fixture.fail_by(&path, fixture.refresh_ingress(&id)).await;
        fixture.clock.advance(DELAY);
        fixture
            .child_until(&path, |child| {
                child.is_some_and(|child| messages(child).contains(&"poll"))
            })
            .await;
        // On the same path as an effect of the poll.
        fixture.refresh_ingress(&id).await.unwrap();
        assert_eq!(
            messages(&fixture.child(&path).await.unwrap()),
            ["refresh", "poll", "refresh"]
        );
    });
}

#[test]
fn the_end_of_its_room_deletes_an_ingress_on_the_media_plane() {
    run(async {
        let fixture = Fixture::new().await;
        let id = fixture.create_ingress().await;
        fixture.end_stage().await;
        wait_until(
            async || fixture.plane.ingresses.lock().unwrap().len(),
            |left| *left == 0,
        )
        .await;
        fixture
            .child_until(&ingress_path(&id), |child| child.is_none())
            .await;
        assert_eq!(fixture.ingress(&id).await.status, IngressStatus::Complete);
    });
}
