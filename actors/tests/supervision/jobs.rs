//! A job's and an ingress endpoint's actor that fail: rebuilt from their records, with what was missed asked for.

use std::sync::atomic::Ordering;
use std::time::Duration;

use conclave_actors::TreeError;
use conclave_actors::debug::ActorView;
use conclave_actors::project::{CreateIngressRequest, StartEgressRequest};
use conclave_media::{EgressOutput, EgressRequest, IngressRequest, MediaEvent};
use conclave_model::egress::{
    CompositeMedia, Egress, EgressDetail, EgressKind, EgressSource, EgressState, EgressStatus, Layout, RecordingType,
};
use conclave_model::ingress::{Ingress, IngressState, IngressStatus, InputType};
use conclave_model::room::Room;
use conclave_model::{EgressId, IngressId};
use serde_json::json;

use super::{Stage, run, wait_until};

/// What a failed child waits before it is rebuilt for the first time.
const DELAY: Duration = Duration::from_millis(100);

impl Stage {
    async fn record(&self, room: &str) -> Room {
        self.store.room(self.project.clone(), room.parse().unwrap()).await.unwrap()
    }

    async fn start_recording(&self) -> EgressId {
        let source = EgressSource::RoomComposite { layout: Layout::Grid, media: CompositeMedia::Both };
        let filepath: conclave_model::filepath::FilePath = "stage.mp4".parse().unwrap();
        let wanted = StartEgressRequest {
            room: self.record("stage").await.id,
            detail: EgressDetail::Recording {
                recording_type: RecordingType::from(&source),
                filepath: filepath.clone(),
            },
            egress: EgressRequest {
                room: self.room("stage"),
                max_participants: None,
                source,
                output: EgressOutput::File { filepath, destination: None },
            },
            destination: None,
        };
        self.tree.start_egress(self.project.clone(), wanted, None).await.unwrap().egress_id
    }

    async fn make_ingress(&self) -> IngressId {
        let ingress = IngressRequest {
            room: self.room("stage"),
            max_participants: None,
            input_type: InputType::Rtmp,
            identity: "encoder".parse().unwrap(),
            name: None,
            enable_transcoding: None,
        };
        let wanted = CreateIngressRequest { room: self.record("stage").await.id, ingress };
        self.tree.create_ingress(self.project.clone(), wanted).await.unwrap().ingress.ingress_id
    }

    async fn job(&self, id: &EgressId) -> Egress {
        self.store.egress(self.project.clone(), EgressKind::Recording, id.clone()).await.unwrap()
    }

    async fn ingress(&self, id: &IngressId) -> Ingress {
        self.store.ingress(self.project.clone(), id.clone()).await.unwrap()
    }

    async fn refresh_egress(&self, id: &EgressId) -> Result<Egress, TreeError> {
        self.tree.refresh_egress(self.project.clone(), id.clone()).await
    }

    async fn refresh_ingress(&self, id: &IngressId) -> Result<Ingress, TreeError> {
        self.tree.refresh_ingress(self.project.clone(), id.clone()).await
    }

    /// What the plane knows from now on, whether or not it is heard of.
    fn job_is(&self, id: &EgressId, status: EgressStatus) -> EgressState {
        let mut jobs = self.plane.jobs.lock().unwrap();
        let job = jobs.iter_mut().find(|job| job.egress_id == *id).unwrap();
        job.status = status;
        job.ended_at = status.is_final().then(|| self.clock.now());
        job.clone()
    }

    fn ingress_is(&self, id: &IngressId, status: IngressStatus) -> IngressState {
        let mut ingresses = self.plane.ingresses.lock().unwrap();
        let ingress = ingresses.iter_mut().find(|ingress| ingress.ingress_id == *id).unwrap();
        ingress.status = status;
        ingress.clone()
    }

    /// The child of the project at this place; `None` when there is none, or none any more.
    async fn child(&self, place: &str) -> Option<ActorView> {
        self.tree.actor(&format!("{}/{place}", self.project)).await
    }

    async fn child_until(&self, place: &str, holds: impl Fn(Option<&ActorView>) -> bool) -> Option<ActorView> {
        wait_until(async || self.child(place).await, |child| holds(child.as_ref())).await
    }

    /// Makes a question that a child is asked fail it, and gives its info as it waits to be rebuilt.
    async fn fail_by<T>(&self, place: &str, question: impl Future<Output = Result<T, TreeError>>) -> ActorView {
        let before = self.child(place).await.unwrap().restarts;
        self.plane.panics.store(1, Ordering::SeqCst);
        let answer = question.await;
        assert!(matches!(answer, Err(TreeError::NoAnswer)), "who failed it has no answer");
        let fallen = |child: &ActorView| child.restarts == before + 1 && child.status == "restarting";
        let info = self.child_until(place, |child| child.is_some_and(fallen)).await.unwrap();
        let failure = info.last_failure.as_ref().expect("a failure on its info");
        assert_eq!(failure.at, self.clock.now());
        assert!(failure.reason.contains("the plane was told to panic"), "{}", failure.reason);
        info
    }

    async fn child_is_back(&self, place: &str, restarts: u32) -> ActorView {
        let running = |child: &ActorView| child.status == "running" && child.restarts == restarts;
        let back = self.child_until(place, |child| child.is_some_and(running)).await.unwrap();
        assert!(back.last_failure.is_some(), "the info keeps the failure");
        back
    }
}

fn place_of_job(id: &EgressId) -> String {
    format!("egress/{id}")
}

fn place_of_ingress(id: &IngressId) -> String {
    format!("ingress/{id}")
}

#[test]
fn a_failed_job_is_rebuilt_from_its_record_and_answers_who_waited() {
    run(async {
        let stage = Stage::set().await;
        let (id, sibling) = (stage.start_recording().await, stage.start_recording().await);
        let said = stage.job_is(&id, EgressStatus::Active);
        stage.report("stage", MediaEvent::Egress(said)).await.unwrap().unwrap();
        stage.clock.advance(Duration::from_secs(30));
        let place = place_of_job(&id);
        let fallen = stage.fail_by(&place, stage.refresh_egress(&id)).await;
        assert_eq!((fallen.restarts, fallen.state), (1, json!(null)));

        // Both are sent before the clock moves, so both wait for it.
        let stop = stage.tree.stop_egress(stage.project.clone(), id.clone(), None);
        let (refreshed, stopped, ()) =
            tokio::join!(stage.refresh_egress(&id), stop, async { stage.clock.advance(DELAY) });
        assert_eq!(refreshed.unwrap().status, EgressStatus::Active);
        assert_eq!(stopped.unwrap().status, EgressStatus::Ending);
        let back = stage.child_is_back(&place, 1).await;
        assert_eq!(back.started_at, stage.clock.now());
        let state = (&back.state["job"], &back.state["room"], &back.state["room_open"], &back.state["status"]);
        assert_eq!(state, (&json!("recording"), &json!("stage"), &json!(true), &json!("ending")));
        assert_eq!(back.timers.iter().map(|timer| timer.name).collect::<Vec<_>>(), ["settle"]);
        assert_eq!(stage.job(&id).await.status, EgressStatus::Ending);

        let sibling = stage.child(&place_of_job(&sibling)).await.unwrap();
        assert_eq!((sibling.status, sibling.restarts), ("running", 0));
        assert_eq!(stage.actor("stage").await.restarts, 0);
    });
}

#[test]
fn what_a_job_did_while_its_actor_was_away_is_asked_for() {
    run(async {
        let stage = Stage::set().await;
        let id = stage.start_recording().await;
        let place = place_of_job(&id);
        stage.fail_by(&place, stage.refresh_egress(&id)).await;
        // Nobody reports it.
        stage.job_is(&id, EgressStatus::Complete);
        stage.clock.advance(DELAY);
        // A job that is final has no actor.
        stage.child_until(&place, |child| child.is_none()).await;
        let job = stage.job(&id).await;
        assert_eq!((job.status, job.ended_at), (EgressStatus::Complete, Some(stage.clock.now().before(DELAY))));
    });
}

#[test]
fn the_end_of_its_room_reaches_a_job_that_waits_to_be_rebuilt() {
    run(async {
        let stage = Stage::set().await;
        let id = stage.start_recording().await;
        let place = place_of_job(&id);
        stage.fail_by(&place, stage.refresh_egress(&id)).await;
        stage.tree.end_room(stage.project.clone(), "stage".parse().unwrap()).await.unwrap();
        stage.clock.advance(DELAY);
        let back = stage.child_is_back(&place, 1).await;
        assert_eq!(back.state["room_open"], false);
        // Without its room it is told to finish.
        stage.child_until(&place, |child| child.is_some_and(|job| job.state["status"] == "ending")).await;
        assert_eq!(stage.job(&id).await.status, EgressStatus::Ending);
    });
}

#[test]
fn a_failed_ingress_is_rebuilt_from_its_record_and_answers_who_waited() {
    run(async {
        let stage = Stage::set().await;
        let (id, sibling) = (stage.make_ingress().await, stage.make_ingress().await);
        let said = stage.ingress_is(&id, IngressStatus::Publishing);
        stage.report("stage", MediaEvent::Ingress(said)).await.unwrap().unwrap();
        let place = place_of_ingress(&id);
        let fallen = stage.fail_by(&place, stage.refresh_ingress(&id)).await;
        assert_eq!((fallen.restarts, fallen.state), (1, json!(null)));

        let (refreshed, ()) = tokio::join!(stage.refresh_ingress(&id), async { stage.clock.advance(DELAY) });
        assert_eq!(refreshed.unwrap().status, IngressStatus::Publishing);
        let back = stage.child_is_back(&place, 1).await;
        assert_eq!(back.started_at, stage.clock.now());
        let state = (&back.state["room"], &back.state["participant_identity"], &back.state["status"]);
        assert_eq!(state, (&json!("stage"), &json!("encoder"), &json!("publishing")));
        assert!(!back.state.to_string().contains("stream-key"));

        // It fails where it is deleted; the record stands until that has been done.
        let delete = || stage.tree.delete_ingress(stage.project.clone(), id.clone());
        stage.fail_by(&place, delete()).await;
        assert_eq!(stage.ingress(&id).await.status, IngressStatus::Publishing);
        let (deleted, ()) = tokio::join!(delete(), async { stage.clock.advance(DELAY * 2) });
        assert_eq!(deleted.unwrap().status, IngressStatus::Deleted);
        stage.child_until(&place, |child| child.is_none()).await;

        let sibling = stage.child(&place_of_ingress(&sibling)).await.unwrap();
        assert_eq!((sibling.status, sibling.restarts), ("running", 0));
    });
}

#[test]
fn what_an_encoder_did_while_its_actor_was_away_is_asked_for() {
    run(async {
        let stage = Stage::set().await;
        let id = stage.make_ingress().await;
        let place = place_of_ingress(&id);
        stage.fail_by(&place, stage.refresh_ingress(&id)).await;
        stage.ingress_is(&id, IngressStatus::Publishing);
        stage.clock.advance(DELAY);
        stage.child_until(&place, |child| child.is_some_and(|seen| seen.state["status"] == "publishing")).await;
        assert_eq!(stage.ingress(&id).await.status, IngressStatus::Publishing);
    });
}

#[test]
fn an_ingress_whose_room_ends_while_it_waits_is_answered_from_its_record() {
    run(async {
        let stage = Stage::set().await;
        let id = stage.make_ingress().await;
        let place = place_of_ingress(&id);
        stage.fail_by(&place, stage.refresh_ingress(&id)).await;
        let end = stage.tree.end_room(stage.project.clone(), "stage".parse().unwrap());
        let (refreshed, ()) = tokio::join!(stage.refresh_ingress(&id), async {
            end.await.unwrap();
            stage.clock.advance(DELAY);
        });
        assert_eq!(refreshed.unwrap().status, IngressStatus::Complete);
        stage.child_until(&place, |child| child.is_none()).await;
        assert_eq!(stage.ingress(&id).await.status, IngressStatus::Complete);
        // And the plane has let go of it.
        wait_until(async || stage.plane.ingresses.lock().unwrap().len(), |left| *left == 0).await;
    });
}
