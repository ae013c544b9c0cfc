//! A project's recordings and broadcasts: their start, and their specifics as children.

use std::sync::Arc;
use std::time::Duration;

use conclave_db::{RunningEgress, Store, StoreError};
use conclave_media::{MediaError, MediaPlane};
use conclave_model::destination::{Destination, RecordingConfig};
use conclave_model::egress::{Egress, EgressKind, EgressOutput, EgressPlan};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::{EgressId, NamespacedRoom, ProjectId, RoomName};

use super::context::ProjectContext;
use super::followed::{Followed, FollowedSet};
use super::message::{ProjectMsg, UnansweredFound, UnansweredStart};
use super::rooms::Rooms;
use crate::context::ActorContext;
use crate::egress::{EgressActor, EgressMsg, EgressReply};
use crate::error::TreeError;
use crate::info::ActorInfo;

impl Followed for RunningEgress {
    type Id = EgressId;
    type Actor = EgressActor;

    fn id(&self) -> &EgressId {
        &self.egress.egress_id
    }

    fn room(&self) -> &RoomName {
        &self.egress.room
    }

    fn actor(project: &ProjectContext, id: EgressId, info: Arc<ActorInfo>) -> EgressActor {
        EgressActor {
            context: Arc::clone(&project.shared),
            info,
            id,
        }
    }

    async fn load(
        store: Store,
        project: ProjectId,
        id: EgressId,
    ) -> Result<Option<Self>, StoreError> {
        store.egresses().running(project, id).await
    }

    fn loaded(id: EgressId, record: Result<Option<Self>, StoreError>) -> ProjectMsg {
        ProjectMsg::EgressLoaded {
            id,
            record: Box::new(record),
        }
    }

    fn poll() -> EgressMsg {
        EgressMsg::Poll
    }

    fn room_ended() -> EgressMsg {
        EgressMsg::RoomEnded
    }

    fn reply_without_actor(project: &ProjectContext, id: EgressId, message: EgressMsg) {
        match message {
            // An egress that this server has not started, such as another program's, has no event.
            EgressMsg::Report { answer, .. } => {
                log::debug!(egress_id = id.as_str(); "a report of an unknown egress was dropped");
                let _ = answer.send(Ok(()));
            }
            EgressMsg::Refresh(reply) | EgressMsg::Stop { reply, .. } => {
                let (store, project) = (project.shared.store.clone(), project.id.clone());
                tokio::spawn(async move {
                    let record = store.egresses().by_id(project, id).await;
                    let _ = reply.send(record.map_err(TreeError::from));
                });
            }
            // Without an actor, it is not running.
            EgressMsg::SetPaused { reply, .. } => {
                let _ = reply.send(Err(EgressKind::recording_ended().into()));
            }
            EgressMsg::RoomEnded
            | EgressMsg::Poll
            | EgressMsg::Uploaded(_)
            | EgressMsg::UploadDue
            | EgressMsg::Inspect(_) => {}
        }
    }

    fn clean_up(project: &ProjectContext, id: &EgressId) {
        // The record is final, so an egress that still runs is stopped.
        let (context, project, id) = (Arc::clone(&project.shared), project.id.clone(), id.clone());
        tokio::spawn(async move {
            if let Ok(Some(egress)) = context.store.egresses().ended(project, id).await {
                stop_on_plane(
                    &*context.media,
                    &egress.namespaced_room(),
                    &egress.egress_id,
                )
                .await;
            }
        });
    }
}

impl FollowedSet<RunningEgress> {
    /// Starts a recording or a broadcast in a spawned task, since a media plane may take long.
    pub fn start(
        &mut self,
        project: &ProjectContext,
        plan: Arc<EgressPlan>,
        recorder: Option<ResponseRecorder<Egress>>,
        reply: EgressReply,
    ) {
        // From now on, reports about unknown egresses are buffered: the media plane may report before the record exists.
        self.begin_creation();
        let (context, me) = (Arc::clone(&project.shared), project.me.clone());
        let at = context.clock.now();
        tokio::spawn(async move {
            let (result, may_run) = match storage(&context, &plan).await {
                Ok(storage) => {
                    let result = start(&context, &plan, storage, recorder).await;
                    // Decided before the result goes to the client.
                    let may_run = may_run(&result);
                    (result, may_run)
                }
                // The media plane was not called, so nothing can run.
                Err(error) => (Err(error.into()), false),
            };
            let unanswered = may_run.then(|| Arc::new(UnansweredStart { plan, at }));
            // If the project has stopped, it will find the record in the database at its next start.
            let _ = me.cast(ProjectMsg::EgressStarted {
                result: Box::new(result),
                unanswered,
                reply,
            });
        });
    }

    /// Spawns the actor of a started recording or broadcast, and delivers the reports that were buffered for it.
    pub async fn started(
        &mut self,
        project: &mut ProjectContext,
        rooms: &Rooms,
        result: Result<RunningEgress, TreeError>,
        reply: EgressReply,
    ) {
        if let Ok(running) = &result {
            // The room may have ended since it was written.
            let room_open = rooms.contains(&running.egress.room);
            let running = RunningEgress {
                room_open,
                ..running.clone()
            };
            self.follow(project, running).await;
        }
        // After the actor exists, so that a client's next request finds it.
        let _ = reply.send(result.map(|running| running.egress));
        self.end_creation(project);
    }
}

/// Reads the storage of a recording with a destination, if the media plane uploads the file itself.
async fn storage(
    context: &ActorContext,
    plan: &EgressPlan,
) -> Result<Option<RecordingConfig>, StoreError> {
    let (EgressOutput::File { .. }, Some(used)) = (&plan.output, &plan.destination) else {
        return Ok(None);
    };
    if !context.media.uploads_recordings() {
        return Ok(None);
    }
    let found = context
        .store
        .uploads()
        .storage(plan.room.split().0, used.id.clone())
        .await?;
    // The destination may have been deleted since the request was checked.
    found
        .map(Some)
        .ok_or_else(|| Destination::not_found().at("destination").into())
}

/// Starts an egress on the media plane, then writes its record. An egress that cannot be written is stopped again.
async fn start(
    context: &ActorContext,
    plan: &Arc<EgressPlan>,
    storage: Option<RecordingConfig>,
    recorder: Option<ResponseRecorder<Egress>>,
) -> Result<RunningEgress, TreeError> {
    let started = context
        .media
        .start_egress(Arc::clone(plan), storage)
        .await?;
    let egress_id = started.state.egress_id.clone();
    let written = context
        .store
        .egresses()
        .start(Arc::clone(plan), started, context.node.clone(), recorder)
        .await;
    let written = written.map_err(TreeError::from);
    // An egress with a record was started by another request, and continues.
    if written.as_ref().is_err_and(|error| !is_known(error)) {
        log::warn!(egress_id = egress_id.as_str(); "writing a started egress failed, so it is stopped");
        stop_on_plane(&*context.media, &plan.room, &egress_id).await;
    }
    written
}

/// Stops an egress that has no record, or a final one.
async fn stop_on_plane(media: &dyn MediaPlane, room: &NamespacedRoom, id: &EgressId) {
    if let Err(error) = media.stop_egress(room, id).await {
        log::warn!(egress_id = id.as_str(), room = room.as_str(); "an egress was not stopped on the media plane: {error}");
    }
}

/// Returns whether an egress may run although its start failed: it was not refused, and has no record.
fn may_run<T>(started: &Result<T, TreeError>) -> bool {
    match started {
        Err(error @ TreeError::Refused(_)) => !is_known(error),
        Err(
            TreeError::Store(_) | TreeError::Media(MediaError::Unavailable(_)) | TreeError::NoReply,
        ) => true,
        Ok(_) | Err(TreeError::Media(_)) => false,
    }
}

/// Returns whether an egress was not written because it already has a record.
fn is_known(error: &TreeError) -> bool {
    let TreeError::Refused(problem) = error else {
        return false;
    };
    // The whole refusal: a second automatic recording has the same code, and has to be stopped.
    EgressKind::ALL
        .iter()
        .any(|kind| kind.already_exists() == *problem)
}

/// Time within which an egress starts to run after the request.
const LONGEST_START: Duration = Duration::from_secs(60);

/// Starts of recordings and broadcasts without a reply. The media plane may run an egress that has no record and that no client knows. It
/// is found by its request, and stopped as soon as the media plane is available.
#[derive(Default)]
pub(super) struct UnansweredStarts(Vec<Arc<UnansweredStart>>);

impl UnansweredStarts {
    /// Adds a start without a reply.
    pub fn add(&mut self, start: Arc<UnansweredStart>) {
        self.0.push(start);
    }

    /// Requests the egresses of such starts from the media plane, in a spawned task. While another start runs, its egress has no record
    /// either; the end of that start repeats this.
    pub fn look(&self, project: &ProjectContext, egresses: &FollowedSet<RunningEgress>) {
        // Nothing to look for, or an egress of a running start could be mistaken for a lost one.
        if self.0.is_empty() || egresses.pending() > 0 {
            return;
        }
        let starts = self.0.clone();
        let (context, me) = (Arc::clone(&project.shared), project.me.clone());
        tokio::spawn(async move {
            let asked_at = context.clock.now();
            let found = find(&context, &starts).await;
            let _ = me.cast(ProjectMsg::UnansweredFound(Box::new(UnansweredFound {
                asked_at,
                found,
            })));
        });
    }

    /// Stops the found egresses, unless they have an actor: those belong to other starts.
    pub fn found(
        &mut self,
        project: &ProjectContext,
        egresses: &FollowedSet<RunningEgress>,
        seen: UnansweredFound,
    ) {
        let UnansweredFound { asked_at, found } = seen;
        let found = found.inspect_err(|error| {
            log::warn!(
                "the search for an egress without a start reply failed and is repeated: {error}"
            );
        });
        let Ok(found) = found else { return };
        // A later start may own the egress. Its end repeats the search.
        if egresses.pending() > 0 {
            return;
        }
        // Kept for a minute after the request: the media plane may still be starting the egress.
        self.0
            .retain(|start| start.at.after(LONGEST_START) > asked_at);
        for (room, id) in found.into_iter().filter(|(_, id)| !egresses.contains(id)) {
            log::warn!(egress_id = id.as_str(), room = room.as_str(); "stopping an egress whose start got no reply");
            let media = Arc::clone(&project.shared.media);
            tokio::spawn(async move { stop_on_plane(&*media, &room, &id).await });
        }
    }
}

async fn find(
    context: &ActorContext,
    starts: &[Arc<UnansweredStart>],
) -> Result<Vec<(NamespacedRoom, EgressId)>, MediaError> {
    let mut found = Vec::new();
    // One query per start. Lost starts are rare.
    for start in starts {
        let ids = context
            .media
            .egresses_started_by(&start.plan, start.at)
            .await?;
        found.extend(ids.into_iter().map(|id| (start.plan.room.clone(), id)));
    }
    Ok(found)
}
