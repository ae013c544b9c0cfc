//! Egress and ingress actors that fail: they are rebuilt from their records, and poll for lost
//! reports.

use std::sync::atomic::Ordering;
use std::time::Duration;

use conclave_actors::TreeError;
use conclave_actors::debug::ActorView;
use conclave_actors::project::CreateIngressRequest;
use conclave_media::{IngressRequest, MediaEvent};
use conclave_model::egress::{
    CompositeMedia, Egress, EgressKind, EgressOutput, EgressPlan, EgressSource, EgressState,
    EgressStatus, Layout,
};
use conclave_model::ingress::{Ingress, IngressState, IngressStatus, InputType};
use conclave_model::room::Room;
use conclave_model::{EgressId, IngressId};
use serde_json::json;

use super::fixture::{Fixture, run, wait_until};

/// Delay before a failed child is rebuilt for the first time.
pub const DELAY: Duration = Duration::from_millis(100);

impl Fixture {
    async fn record(&self, room: &str) -> Room {
        self.store
            .rooms()
            .get(self.project.clone(), room.parse().unwrap())
            .await
            .unwrap()
    }

    pub async fn start_recording(&self) -> EgressId {
        let source = EgressSource::RoomComposite {
            layout: Layout::Grid,
            media: CompositeMedia::Both,
        };
        let filepath: conclave_model::filepath::FilePath = "stage.mp4".parse().unwrap();
        let plan = EgressPlan {
            room_id: self.record("stage").await.id,
            room: self.room("stage"),
            max_participants: None,
            source,
            output: EgressOutput::File {
                filepath,
                taken: Vec::new(),
            },
            destination: None,
            is_automatic: false,
        };
        self.tree.start_egress(plan, None).await.unwrap().egress_id
    }

    pub async fn create_ingress(&self) -> IngressId {
        let ingress = IngressRequest {
            room: self.room("stage"),
            max_participants: None,
            input_type: InputType::Rtmp,
            identity: "encoder".parse().unwrap(),
            name: None,
            enable_transcoding: None,
            public_url: None,
        };
        let wanted = CreateIngressRequest {
            room: self.record("stage").await.id,
            ingress,
        };
        self.tree
            .create_ingress(self.project.clone(), wanted)
            .await
            .unwrap()
            .ingress
            .ingress_id
    }

    pub async fn egress(&self, id: &EgressId) -> Egress {
        self.store
            .egresses()
            .get(self.project.clone(), EgressKind::Recording, id.clone())
            .await
            .unwrap()
    }

    pub async fn ingress(&self, id: &IngressId) -> Ingress {
        self.store
            .ingresses()
            .get(self.project.clone(), id.clone())
            .await
            .unwrap()
    }

    pub async fn refresh_egress(&self, id: &EgressId) -> Result<Egress, TreeError> {
        self.tree
            .refresh_egress(self.project.clone(), id.clone())
            .await
    }

    pub async fn refresh_ingress(&self, id: &IngressId) -> Result<Ingress, TreeError> {
        self.tree
            .refresh_ingress(self.project.clone(), id.clone())
            .await
    }

    /// Sets the state on the media plane without a report.
    pub fn set_egress(&self, id: &EgressId, status: EgressStatus) -> EgressState {
        let mut egresses = self.plane.egresses.lock().unwrap();
        let egress = egresses
            .iter_mut()
            .find(|egress| egress.egress_id == *id)
            .unwrap();
        egress.status = status;
        egress.ended_at = status.is_final().then(|| self.clock.now());
        egress.clone()
    }

    pub fn set_ingress(&self, id: &IngressId, status: IngressStatus) -> IngressState {
        let mut ingresses = self.plane.ingresses.lock().unwrap();
        let ingress = ingresses
            .iter_mut()
            .find(|ingress| ingress.ingress_id == *id)
            .unwrap();
        ingress.status = status;
        ingress.clone()
    }

    /// Returns the project's child with this path; `None` if it does not exist.
    pub async fn child(&self, path: &str) -> Option<ActorView> {
        self.tree.actor(&format!("{}/{path}", self.project)).await
    }

    pub async fn child_until(
        &self,
        path: &str,
        holds: impl Fn(Option<&ActorView>) -> bool,
    ) -> Option<ActorView> {
        wait_until(
            async || self.child(path).await,
            |child| holds(child.as_ref()),
        )
        .await
    }

    /// Makes a call fail a child. Returns the child as it waits to be rebuilt.
    pub async fn fail_by<T>(
        &self,
        path: &str,
        question: impl Future<Output = Result<T, TreeError>>,
    ) -> ActorView {
        let before = self.child(path).await.unwrap().restarts;
        self.plane.panics.store(1, Ordering::SeqCst);
        let answer = question.await;
        assert!(
            matches!(answer, Err(TreeError::NoReply)),
            "the caller gets no answer"
        );
        let fallen =
            |child: &ActorView| child.restarts == before + 1 && child.status == "restarting";
        let info = self
            .child_until(path, |child| child.is_some_and(fallen))
            .await
            .unwrap();
        self.restart_is_due().await;
        let failure = info.last_failure.as_ref().expect("a failure in its info");
        assert_eq!(failure.at, self.clock.now());
        assert!(
            failure.reason.contains("the plane was told to panic"),
            "{}",
            failure.reason
        );
        info
    }

    async fn child_is_back(&self, path: &str, restarts: u32) -> ActorView {
        let running = |child: &ActorView| child.status == "running" && child.restarts == restarts;
        let back = self
            .child_until(path, |child| child.is_some_and(running))
            .await
            .unwrap();
        assert!(back.last_failure.is_some(), "the failure is kept");
        back
    }
}

pub fn egress_path(id: &EgressId) -> String {
    format!("egress/{id}")
}

pub fn ingress_path(id: &IngressId) -> String {
    format!("ingress/{id}")
}

#[test]
fn a_failed_egress_is_rebuilt_from_its_record_and_answers_waiting_callers() {
    run(async {
        let fixture = Fixture::new().await;
        let (id, sibling) = (
            fixture.start_recording().await,
            fixture.start_recording().await,
        );
        let said = fixture.set_egress(&id, EgressStatus::Active);
        fixture
            .report("stage", MediaEvent::Egress(said))
            .await
            .unwrap()
            .unwrap();
        fixture.clock.advance(Duration::from_secs(30));
        let path = egress_path(&id);
        let fallen = fixture.fail_by(&path, fixture.refresh_egress(&id)).await;
        assert_eq!((fallen.restarts, fallen.state), (1, json!(null)));

        // Both are sent before the clock moves, so both wait for it.
        let stop = fixture
            .tree
            .stop_egress(fixture.project.clone(), id.clone(), None);
        let (refreshed, stopped, ()) = tokio::join!(fixture.refresh_egress(&id), stop, async {
            fixture.clock.advance(DELAY);
        });
        assert_eq!(refreshed.unwrap().status, EgressStatus::Active);
        assert_eq!(stopped.unwrap().status, EgressStatus::Ending);
        let back = fixture.child_is_back(&path, 1).await;
        assert_eq!(back.started_at, fixture.clock.now());
        let state = (
            &back.state["kind"],
            &back.state["room"],
            &back.state["room_open"],
            &back.state["status"],
        );
        assert_eq!(
            state,
            (
                &json!("recording"),
                &json!("stage"),
                &json!(true),
                &json!("ending")
            )
        );
        assert_eq!(
            back.timers
                .iter()
                .map(|timer| timer.name)
                .collect::<Vec<_>>(),
            ["settle"]
        );
        assert_eq!(fixture.egress(&id).await.status, EgressStatus::Ending);

        let sibling = fixture.child(&egress_path(&sibling)).await.unwrap();
        assert_eq!((sibling.status, sibling.restarts), ("running", 0));
        assert_eq!(fixture.actor("stage").await.restarts, 0);
    });
}

#[test]
fn a_pause_that_cannot_be_written_is_undone_on_the_media_plane() {
    run(async {
        let fixture = Fixture::new().await;
        let id = fixture.start_recording().await;
        let set = async |paused| {
            let (project, id) = (fixture.project.clone(), id.clone());
            fixture
                .tree
                .set_recording_paused(project, id, paused, None)
                .await
        };
        let commands = || std::mem::take(&mut *fixture.plane.commands.lock().unwrap());
        let refused = async |paused| {
            let lock = fixture.records.lock();
            let refused = set(paused).await;
            assert!(matches!(refused, Err(TreeError::Store(_))), "{refused:?}");
            drop(lock);
        };
        refused(true).await;
        assert_eq!(commands(), ["pause EG_0", "resume EG_0"]);
        assert_eq!(fixture.egress(&id).await.paused, None);
        assert_eq!(set(true).await.unwrap().paused, Some(true));
        assert_eq!(commands(), ["pause EG_0"]);
        // A repeated pause changes nothing, so there is nothing to undo.
        refused(true).await;
        assert_eq!(commands(), ["pause EG_0"]);
        refused(false).await;
        assert_eq!(commands(), ["resume EG_0", "pause EG_0"]);
        assert_eq!(fixture.egress(&id).await.paused, Some(true));
    });
}

#[test]
fn lost_reports_of_an_egress_are_polled_when_its_actor_is_rebuilt() {
    run(async {
        let fixture = Fixture::new().await;
        let id = fixture.start_recording().await;
        let path = egress_path(&id);
        fixture.fail_by(&path, fixture.refresh_egress(&id)).await;
        // This is not reported.
        fixture.set_egress(&id, EgressStatus::Complete);
        fixture.clock.advance(DELAY);
        // A final egress has no actor.
        fixture.child_until(&path, |child| child.is_none()).await;
        let egress = fixture.egress(&id).await;
        assert_eq!(
            (egress.status, egress.ended_at),
            (
                EgressStatus::Complete,
                Some(fixture.clock.now().before(DELAY))
            )
        );
    });
}

#[test]
fn the_end_of_the_room_reaches_an_egress_that_waits_to_be_rebuilt() {
    run(async {
        let fixture = Fixture::new().await;
        let id = fixture.start_recording().await;
        let path = egress_path(&id);
        fixture.fail_by(&path, fixture.refresh_egress(&id)).await;
        fixture
            .tree
            .end_room(fixture.project.clone(), "stage".parse().unwrap())
            .await
            .unwrap();
        fixture.clock.advance(DELAY);
        let back = fixture.child_is_back(&path, 1).await;
        assert_eq!(back.state["room_open"], false);
        // An egress without a room is stopped.
        fixture
            .child_until(&path, |child| {
                child.is_some_and(|egress| egress.state["status"] == "ending")
            })
            .await;
        assert_eq!(fixture.egress(&id).await.status, EgressStatus::Ending);
    });
}

#[test]
fn a_failed_ingress_is_rebuilt_from_its_record_and_answers_waiting_callers() {
    run(async {
        let fixture = Fixture::new().await;
        let (id, sibling) = (
            fixture.create_ingress().await,
            fixture.create_ingress().await,
        );
        let said = fixture.set_ingress(&id, IngressStatus::Publishing);
        fixture
            .report("stage", MediaEvent::Ingress(said))
            .await
            .unwrap()
            .unwrap();
        let path = ingress_path(&id);
        let fallen = fixture.fail_by(&path, fixture.refresh_ingress(&id)).await;
        assert_eq!((fallen.restarts, fallen.state), (1, json!(null)));

        let (refreshed, ()) = tokio::join!(fixture.refresh_ingress(&id), async {
            fixture.clock.advance(DELAY);
        });
        assert_eq!(refreshed.unwrap().status, IngressStatus::Publishing);
        let back = fixture.child_is_back(&path, 1).await;
        assert_eq!(back.started_at, fixture.clock.now());
        let state = (
            &back.state["room"],
            &back.state["participant_identity"],
            &back.state["status"],
        );
        assert_eq!(
            state,
            (&json!("stage"), &json!("encoder"), &json!("publishing"))
        );
        assert!(!back.state.to_string().contains("stream-key"));

        // It fails in its deletion; the record is not deleted before that succeeds.
        let delete = || {
            fixture
                .tree
                .delete_ingress(fixture.project.clone(), id.clone())
        };
        fixture.fail_by(&path, delete()).await;
        assert_eq!(fixture.ingress(&id).await.status, IngressStatus::Publishing);
        let (deleted, ()) = tokio::join!(delete(), async { fixture.clock.advance(DELAY * 2) });
        assert_eq!(deleted.unwrap().status, IngressStatus::Deleted);
        fixture.child_until(&path, |child| child.is_none()).await;

        let sibling = fixture.child(&ingress_path(&sibling)).await.unwrap();
        assert_eq!((sibling.status, sibling.restarts), ("running", 0));
    });
}

#[test]
fn lost_reports_of_an_ingress_are_polled_when_its_actor_is_rebuilt() {
    run(async {
        let fixture = Fixture::new().await;
        let id = fixture.create_ingress().await;
        let path = ingress_path(&id);
        fixture.fail_by(&path, fixture.refresh_ingress(&id)).await;
        fixture.set_ingress(&id, IngressStatus::Publishing);
        fixture.clock.advance(DELAY);
        fixture
            .child_until(&path, |child| {
                child.is_some_and(|seen| seen.state["status"] == "publishing")
            })
            .await;
        assert_eq!(fixture.ingress(&id).await.status, IngressStatus::Publishing);
    });
}

#[test]
fn an_ingress_whose_room_ends_while_it_waits_is_answered_from_its_record() {
    run(async {
        let fixture = Fixture::new().await;
        let id = fixture.create_ingress().await;
        let path = ingress_path(&id);
        fixture.fail_by(&path, fixture.refresh_ingress(&id)).await;
        let end = fixture
            .tree
            .end_room(fixture.project.clone(), "stage".parse().unwrap());
        let (refreshed, ()) = tokio::join!(fixture.refresh_ingress(&id), async {
            end.await.unwrap();
            fixture.clock.advance(DELAY);
        });
        assert_eq!(refreshed.unwrap().status, IngressStatus::Complete);
        fixture.child_until(&path, |child| child.is_none()).await;
        assert_eq!(fixture.ingress(&id).await.status, IngressStatus::Complete);
        // It is deleted on the media plane.
        wait_until(
            async || fixture.plane.ingresses.lock().unwrap().len(),
            |left| *left == 0,
        )
        .await;
    });
}
