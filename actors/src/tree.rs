//! The entry to the actors for HTTP handlers and the media plane. Callers outside this crate hold no mailbox.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conclave_db::{NewBan, NewRoom, PutBan};
use conclave_media::{
    MediaEvent, MediaPlane, MuteOutcome, Report, ReportReply, ReportSink, ServerData,
};
use conclave_model::egress::{Egress, EgressPlan};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::ingress::Ingress;
use conclave_model::role_change::RoleChanged;
use conclave_model::room::Room;
use conclave_model::webhook::{WebhookEndpoint, WebhookEndpointChange};
use conclave_model::{EgressId, EndpointId, Identity, IngressId, ProjectId, RoomName};
use conclave_outbound::upload::Uploader;
use ractor::{Actor, RpcReplyPort};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::context::ActorContext;
use crate::egress::EgressMsg;
use crate::error::TreeError;
use crate::info::{ActorInfo, ActorKind};
use crate::ingress::{CreatedIngress, IngressMsg};
use crate::mailbox::Mailbox;
use crate::project::{CreateIngressRequest, ProjectMsg};
use crate::registry::{ActorRegistry, ActorStatus};
use crate::relay::EventRelay;
use crate::report_queue::{Flooders, PushOutcomes, ReportQueues};
use crate::room::{ChangeRoleRequest, MuteTrackRequest, RoomMsg};
use crate::system::{ProjectMailboxes, ProjectRoute, SystemActor, SystemMsg};
use crate::webhook_endpoint::{RotateSecretRequest, WebhookEndpointMsg, WebhookEndpointReply};

/// Call time limit. It is longer than any write, unless the disk is in trouble, and than two calls to a media plane that may precede
/// the request, so that callers learn that the media plane is unavailable.
const CALL_TIMEOUT: Duration = Duration::from_secs(35);
/// Time limit for the start of an egress or an ingress endpoint, for which a media plane takes longer.
const START_TIMEOUT: Duration = Duration::from_secs(45);

/// The running tree. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    projects: ProjectRoute,
    flooders: Arc<Flooders>,
    context: Arc<ActorContext>,
}

impl Tree {
    /// Starts the root on the current runtime, which must be multi-threaded: actors stay where they are spawned.
    ///
    /// # Errors
    /// If the root could not be started.
    pub async fn start(context: ActorContext, relay: &EventRelay) -> Result<Self, TreeError> {
        let (context, running) = (Arc::new(context), ProjectMailboxes::default());
        let info = ActorInfo::new("system".into(), ActorKind::System, None, None);
        let actor = SystemActor {
            context: Arc::clone(&context),
            info: Arc::clone(&info),
            projects: running.clone(),
        };
        let (actor, _) = Actor::spawn(None, actor, ())
            .await
            .map_err(|_| TreeError::NoReply)?;
        let system = Mailbox::new(actor, info);
        context.registry.register(
            system.info(),
            ActorStatus::Running(Arc::new(system.clone())),
        );
        // The hook runs from here on. Deliveries that were committed earlier are found by the actors that start.
        let projects = ProjectRoute::new(system, running);
        relay.connect(projects.clone());
        let flooders = Flooders::new(
            Arc::clone(&context.media),
            context.clock.clone(),
            Handle::current(),
        );
        let (root, reports) = (projects.root().actor().clone(), context.reports.clone());
        tokio::spawn(async move {
            // If the root stops by itself, no actor handles queued reports. Without a timeout, this wait cannot time out.
            let _ = root.wait(None).await;
            reports.clear();
        });
        Ok(Self {
            projects,
            flooders: Arc::new(flooders),
            context,
        })
    }

    /// Announces that the stop ends the egresses. An automatic recording that was not started is left to the next server.
    pub fn announce_egress_end(&self) {
        self.context.ends_egresses.store(true, Ordering::Relaxed);
    }

    /// Announces the stop. Leaves that the media plane reports from now on are caused by the server: the participants have the whole empty
    /// timeout to reconnect once a server runs again.
    pub fn announce_stop(&self) {
        self.context.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Stops every actor, children first, each after its current message.
    pub async fn stop(&self) {
        let stopped = self
            .projects
            .root()
            .actor()
            .stop_and_wait(None, Some(self.context.settings.stop_timeout(3)))
            .await;
        if stopped.is_err() {
            log::warn!("the actors did not stop in time");
        }
        // Reporters must not wait for actors that are gone.
        self.context.reports.clear();
    }

    /// Returns once the root has stopped, for any reason.
    pub async fn ended(&self) {
        // Without a timeout, this wait cannot time out.
        let _ = self.projects.root().actor().wait(None).await;
    }

    /// Checks that the root responds.
    ///
    /// # Errors
    /// If it does not respond within `timeout`.
    pub async fn ping(&self, timeout: Duration) -> Result<(), TreeError> {
        self.projects
            .root()
            .call(SystemMsg::Inspect, timeout)
            .await?;
        Ok(())
    }

    /// Returns the list of all actors.
    pub fn registry(&self) -> &ActorRegistry {
        &self.context.registry
    }

    /// Returns the queues of reports for the room actors.
    pub fn reports(&self) -> &ReportQueues {
        &self.context.reports
    }

    /// Returns the uploader of recordings.
    pub fn uploads(&self) -> &Uploader {
        &self.context.uploads
    }

    /// Returns the media plane.
    pub(crate) fn media(&self) -> &Arc<dyn MediaPlane> {
        &self.context.media
    }

    /// Creates a room. `limit` is the plan's maximum open rooms.
    ///
    /// # Errors
    /// Refused at the limit, for a name that was used before, and for an unknown template.
    pub async fn create_room(
        &self,
        new: NewRoom,
        limit: Option<u32>,
        recorder: Option<ResponseRecorder<Room>>,
    ) -> Result<Room, TreeError> {
        let (project, new) = (new.project_id.clone(), Box::new(new));
        self.call(project, CALL_TIMEOUT, |reply| ProjectMsg::CreateRoom {
            new,
            limit,
            recorder,
            reply,
        })
        .await
    }

    /// Ends a room. An ended room stays unchanged.
    ///
    /// # Errors
    /// Fails as the store does.
    pub async fn end_room(&self, project: ProjectId, name: RoomName) -> Result<(), TreeError> {
        self.call_room(project, name, RoomMsg::End).await
    }

    /// Changes a participant's role: on the media plane first, then in the records.
    ///
    /// # Errors
    /// Refused if the participant is not connected, or the room's template lacks the role. Fails as the media plane or the store does.
    pub async fn change_role(
        &self,
        project: ProjectId,
        name: RoomName,
        request: ChangeRoleRequest,
        recorder: Option<ResponseRecorder<RoleChanged>>,
    ) -> Result<RoleChanged, TreeError> {
        let request = Box::new(request);
        self.call_room(project, name, |reply| RoomMsg::ChangeRole {
            request,
            recorder,
            reply,
        })
        .await
    }

    /// Disconnects a participant. Returns false if the participant is not connected.
    ///
    /// # Errors
    /// Fails as the media plane does.
    pub async fn remove_participant(
        &self,
        project: ProjectId,
        name: RoomName,
        identity: Identity,
    ) -> Result<bool, TreeError> {
        self.call_room(project, name, |reply| RoomMsg::RemoveParticipant {
            identity,
            reply,
        })
        .await
    }

    /// Revokes an identity's tokens for a room, and disconnects its participant, if it is connected.
    ///
    /// # Errors
    /// Refused if the room has ended or has its maximum of revocations. Fails as the store or the media plane does; the revocation is written before the media plane is called.
    pub async fn revoke_participant(
        &self,
        project: ProjectId,
        name: RoomName,
        identity: Identity,
    ) -> Result<(), TreeError> {
        self.context
            .store
            .bans()
            .revoke_tokens(project.clone(), name.clone(), identity.clone())
            .await?;
        self.remove_participant(project, name, identity).await?;
        Ok(())
    }

    /// Bans an identity from a room, and disconnects its participant, if it is connected.
    ///
    /// # Errors
    /// Refused if the room has ended. Fails as the store or the media plane does; the ban is written before the media plane is called.
    pub async fn ban(&self, new: NewBan) -> Result<PutBan, TreeError> {
        let (project, room, identity) = (
            new.project_id.clone(),
            new.room.clone(),
            new.identity.clone(),
        );
        // Before the removal, which the room's actor orders after joins that were decided without the ban.
        let banned = self.context.store.bans().put(new).await?;
        self.remove_participant(project, room, identity).await?;
        Ok(banned)
    }

    /// Mutes or unmutes a participant's track.
    ///
    /// # Errors
    /// Fails as the media plane does.
    pub async fn mute_track(
        &self,
        project: ProjectId,
        name: RoomName,
        request: MuteTrackRequest,
    ) -> Result<MuteOutcome, TreeError> {
        let request = Box::new(request);
        self.call_room(project, name, |reply| RoomMsg::MuteTrack { request, reply })
            .await
    }

    /// Sends data to the participants of a room.
    ///
    /// # Errors
    /// Refused if the room has ended. Fails as the media plane does.
    pub async fn send_data(
        &self,
        project: ProjectId,
        name: RoomName,
        data: ServerData,
    ) -> Result<(), TreeError> {
        let data = Box::new(data);
        self.call_room(project, name, |reply| RoomMsg::SendData { data, reply })
            .await
    }

    /// Starts a recording or a broadcast: on the media plane first, then in the records.
    ///
    /// # Errors
    /// Refused if the room has ended, or the media plane gives it the id of a known egress. Fails as the media plane or the store does.
    pub async fn start_egress(
        &self,
        plan: EgressPlan,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, TreeError> {
        let (project, plan) = (plan.room.split().0, Arc::new(plan));
        let message = |reply| ProjectMsg::StartEgress {
            plan,
            recorder,
            reply,
        };
        self.call(project, START_TIMEOUT, message).await
    }

    /// Polls the media plane for a recording or a broadcast, and returns the record. A final one is returned as it is.
    ///
    /// # Errors
    /// Fails as the media plane or the store does.
    pub async fn refresh_egress(
        &self,
        project: ProjectId,
        id: EgressId,
    ) -> Result<Egress, TreeError> {
        self.call(project, CALL_TIMEOUT, |reply| ProjectMsg::Egress {
            id,
            msg: EgressMsg::Refresh(reply),
        })
        .await
    }

    /// Stops a recording or a broadcast. A final one is returned as it is.
    ///
    /// # Errors
    /// Fails as the media plane or the store does.
    pub async fn stop_egress(
        &self,
        project: ProjectId,
        id: EgressId,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, TreeError> {
        self.call(project, CALL_TIMEOUT, |reply| ProjectMsg::Egress {
            id,
            msg: EgressMsg::Stop { recorder, reply },
        })
        .await
    }

    /// Pauses or resumes a recording: on the media plane first, then in the records. A repeated request changes nothing.
    ///
    /// # Errors
    /// Refused if the recording is ending or has ended. Fails as the media plane or the store does.
    pub async fn set_recording_paused(
        &self,
        project: ProjectId,
        id: EgressId,
        paused: bool,
        recorder: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, TreeError> {
        self.call(project, CALL_TIMEOUT, |reply| ProjectMsg::Egress {
            id,
            msg: EgressMsg::SetPaused {
                paused,
                recorder,
                reply,
            },
        })
        .await
    }

    /// Creates an ingress endpoint: on the media plane first, then in the records.
    ///
    /// # Errors
    /// Refused if the room has ended, or the media plane gives it the id of a known endpoint. Fails as the media plane or the store does.
    pub async fn create_ingress(
        &self,
        project: ProjectId,
        request: CreateIngressRequest,
    ) -> Result<CreatedIngress, TreeError> {
        let request = Box::new(request);
        self.call(project, START_TIMEOUT, |reply| ProjectMsg::CreateIngress {
            request,
            reply,
        })
        .await
    }

    /// Polls the media plane for an ingress endpoint, and returns the record. A final one is returned as it is.
    ///
    /// # Errors
    /// Fails as the media plane or the store does.
    pub async fn refresh_ingress(
        &self,
        project: ProjectId,
        id: IngressId,
    ) -> Result<Ingress, TreeError> {
        self.call(project, CALL_TIMEOUT, |reply| ProjectMsg::Ingress {
            id,
            msg: IngressMsg::Refresh(reply),
        })
        .await
    }

    /// Deletes an ingress endpoint: on the media plane first, so that its key admits no encoder, then in the records.
    ///
    /// # Errors
    /// Fails as the media plane or the store does.
    pub async fn delete_ingress(
        &self,
        project: ProjectId,
        id: IngressId,
    ) -> Result<Ingress, TreeError> {
        self.call(project, CALL_TIMEOUT, |reply| ProjectMsg::Ingress {
            id,
            msg: IngressMsg::Delete(reply),
        })
        .await
    }

    /// Reconciles all projects, because the media plane is available again after an outage.
    pub fn media_returned(&self) {
        // A stopping tree reconciles at its next start.
        let _ = self.projects.root().cast(SystemMsg::MediaReturned);
    }

    /// Makes a webhook endpoint look for deliveries: it is new, or a failed delivery was queued again.
    pub fn wake_endpoint(&self, project: ProjectId, endpoint: EndpointId) {
        let queued = ProjectMsg::WebhookEndpoint {
            id: endpoint,
            msg: WebhookEndpointMsg::Queued,
        };
        // If the tree is stopping, its next start finds the deliveries in the database.
        let _ = self.projects.cast(project, queued);
    }

    /// Changes a webhook endpoint. POSTs that start after the change use its new URL.
    ///
    /// # Errors
    /// Refused if the project has no such webhook endpoint. Fails as the store does.
    pub async fn update_webhook_endpoint(
        &self,
        project: ProjectId,
        id: EndpointId,
        change: WebhookEndpointChange,
    ) -> Result<WebhookEndpoint, TreeError> {
        let change = Box::new(change);
        self.call_webhook_endpoint(project, id, |reply| WebhookEndpointMsg::Update {
            change,
            reply,
        })
        .await
    }

    /// Replaces a webhook endpoint's secret.
    ///
    /// # Errors
    /// Refused if the project has no such webhook endpoint. Fails as the store does.
    pub async fn rotate_webhook_secret(
        &self,
        project: ProjectId,
        id: EndpointId,
        request: RotateSecretRequest,
    ) -> Result<WebhookEndpoint, TreeError> {
        let request = Box::new(request);
        self.call_webhook_endpoint(project, id, |reply| WebhookEndpointMsg::RotateSecret {
            request,
            reply,
        })
        .await
    }

    async fn call_webhook_endpoint(
        &self,
        project: ProjectId,
        id: EndpointId,
        message: impl FnOnce(WebhookEndpointReply) -> WebhookEndpointMsg,
    ) -> Result<WebhookEndpoint, TreeError> {
        // Read first, since the message would start an actor for any id.
        self.context
            .store
            .webhook_endpoints()
            .get(project.clone(), id)
            .await?;
        self.call(project, CALL_TIMEOUT, |reply| ProjectMsg::WebhookEndpoint {
            id,
            msg: message(reply),
        })
        .await
    }

    /// Stops the actor of a webhook endpoint that was deleted.
    pub fn endpoint_deleted(&self, project: ProjectId, endpoint: EndpointId) {
        let deleted = ProjectMsg::WebhookEndpointDeleted(endpoint);
        // Behind the deliveries that the root has for a starting project, which would start the actor again.
        let _ = self.projects.cast_through_root(project, deleted);
    }

    async fn call_room<T, F>(
        &self,
        project: ProjectId,
        name: RoomName,
        message: F,
    ) -> Result<T, TreeError>
    where
        T: Send + 'static,
        F: FnOnce(RpcReplyPort<Result<T, TreeError>>) -> RoomMsg,
    {
        self.call(project, CALL_TIMEOUT, |reply| ProjectMsg::Room {
            name,
            msg: message(reply),
        })
        .await
    }

    async fn call<T, F>(
        &self,
        project: ProjectId,
        timeout: Duration,
        message: F,
    ) -> Result<T, TreeError>
    where
        T: Send + 'static,
        F: FnOnce(RpcReplyPort<Result<T, TreeError>>) -> ProjectMsg,
    {
        self.projects.call(project, timeout, message).await?
    }
}

impl ReportSink for Tree {
    fn report_all(&self, reports: Vec<Report>) -> Vec<ReportReply> {
        let Some(room) = reports.first().map(|report| report.room.clone()) else {
            return Vec::new();
        };
        // If the tree has stopped, the reply channel is dropped, which the media plane reads as unavailable.
        let (mut followed, mut results) = (Vec::new(), Vec::with_capacity(reports.len()));
        let queued = reports.into_iter().filter_map(|report| {
            let (answer, result) = oneshot::channel();
            results.push(result);
            match report.event {
                // These are about objects with an actor of their own, so they do not wait in the room's queue.
                MediaEvent::Egress(_) | MediaEvent::Ingress(_) => {
                    followed.push(SystemMsg::FollowedReport { report, answer });
                    None
                }
                _ => Some((report, answer)),
            }
        });
        let queues = &self.context.reports;
        let PushOutcomes {
            needs_ticket,
            refused,
        } = queues.push_all(&room, queued);
        if needs_ticket {
            let (project, name) = room.split();
            // Fails if the tree has stopped. Then no queued report would be handled.
            if !self.projects.cast(project, ProjectMsg::Reports(name)) {
                queues.clear();
            }
        }
        for flooder in refused {
            self.context.metrics.reports_refused.inc();
            // Removed here, and not by an actor, behind whose messages the removal would wait.
            if let Some(sid) = flooder {
                self.flooders.remove(room.clone(), sid);
            }
        }
        // Last, since an encoder's state follows from its tracks.
        for message in followed {
            let _ = self.projects.root().cast(message);
        }
        results
    }
}
