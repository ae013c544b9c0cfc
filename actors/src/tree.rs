//! The door to the actors. HTTP handlers and the media plane call these; nobody outside holds a mailbox.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use conclave_db::NewRoom;
use conclave_media::{Report, ReportAnswer, ReportSink};
use conclave_model::egress::Egress;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::ingress::Ingress;
use conclave_model::role_change::RoleChanged;
use conclave_model::room::Room;
use conclave_model::{EgressId, EndpointId, IngressId, ProjectId, RoomName};
use ractor::{Actor, RpcReplyPort};
use tokio::sync::oneshot;

use crate::context::ActorContext;
use crate::egress::EgressMsg;
use crate::error::TreeError;
use crate::info::{ActorInfo, ActorKind};
use crate::ingress::{CreatedIngress, IngressMsg};
use crate::mailbox::Mailbox;
use crate::project::{CreateIngressRequest, ProjectMsg, StartEgressRequest};
use crate::registry::{ActorRegistry, ActorStatus};
use crate::relay::EventRelay;
use crate::room::ChangeRoleRequest;
use crate::system::{SystemActor, SystemMsg};

/// How long a caller waits for an actor. Longer than any write takes unless the disk is in trouble, and than the two calls to
/// a media plane that a caller may come behind, so that the answer is that it is away.
const CALL_TIMEOUT: Duration = Duration::from_secs(35);
/// The same for the start of a job, which a media plane takes longer for.
const START_TIMEOUT: Duration = Duration::from_secs(45);
/// How long a stopping actor waits for its children.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(12);

/// The mailboxes of running projects, so that a call need not pass through the root.
#[derive(Clone, Default)]
pub struct Projects(Arc<RwLock<HashMap<ProjectId, Mailbox<ProjectMsg>>>>);

impl Projects {
    pub(crate) fn set(&self, id: ProjectId, mailbox: Mailbox<ProjectMsg>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(id, mailbox);
    }

    pub(crate) fn unset(&self, id: &ProjectId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn get(&self, id: &ProjectId) -> Option<Mailbox<ProjectMsg>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

/// The running tree. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    system: Mailbox<SystemMsg>,
    projects: Projects,
    context: Arc<ActorContext>,
}

impl Tree {
    /// Starts the root on the runtime this is called in, which must be the multi-threaded one: actors stay where they
    /// are spawned.
    ///
    /// # Errors
    /// The root could not be started.
    pub async fn start(context: ActorContext, relay: &EventRelay) -> Result<Self, TreeError> {
        let context = Arc::new(context);
        let projects = Projects::default();
        let info = ActorInfo::new("system".into(), ActorKind::System, None, None);
        let actor = SystemActor { context: Arc::clone(&context), info: Arc::clone(&info), projects: projects.clone() };
        let (actor, _) = Actor::spawn(None, actor, ()).await.map_err(|_| TreeError::NoAnswer)?;
        let system = Mailbox::new(actor, info);
        context.registry.register(system.info(), ActorStatus::Running(Arc::new(system.clone())));
        relay.connect(system.clone());
        Ok(Self { system, projects, context })
    }

    /// Stops every actor, children first, each after the message it is at.
    pub async fn stop(&self) {
        let stopped = self.system.actor().stop_and_wait(None, Some(STOP_TIMEOUT)).await;
        if stopped.is_err() {
            log::warn!("the actors did not stop in time");
        }
    }

    /// Returns once the root has stopped, asked or not.
    pub async fn ended(&self) {
        // Without a timeout it cannot time out.
        let _ = self.system.actor().wait(None).await;
    }

    /// Says whether the root answers.
    ///
    /// # Errors
    /// It does not, within `patience`.
    pub async fn ping(&self, patience: Duration) -> Result<(), TreeError> {
        self.system.call(SystemMsg::Inspect, patience).await.map(|_| ()).map_err(|_| TreeError::NoAnswer)
    }

    /// Returns the list of all actors.
    #[must_use]
    pub fn registry(&self) -> &ActorRegistry {
        &self.context.registry
    }

    /// Makes a room. `limit` is the plan's ceiling of rooms open at once.
    ///
    /// # Errors
    /// Refused at the ceiling, for a name used before, or for an unknown template.
    pub async fn create_room(
        &self,
        new: NewRoom,
        limit: Option<u32>,
        keep: Option<ResponseRecorder<Room>>,
    ) -> Result<Room, TreeError> {
        let (project, new) = (new.project_id.clone(), Box::new(new));
        self.ask(project, |reply| ProjectMsg::CreateRoom { new, limit, keep, reply }).await
    }

    /// Ends a room; one that has ended stays so.
    ///
    /// # Errors
    /// The store's own.
    pub async fn end_room(&self, project: ProjectId, name: RoomName) -> Result<(), TreeError> {
        self.ask(project, |reply| ProjectMsg::EndRoom { name, reply }).await
    }

    /// Gives somebody in a room another role: on the media plane first, then in the records.
    ///
    /// # Errors
    /// Refused when nobody by that identity is in the room, or its template lacks the role; the media plane's own.
    pub async fn change_role(
        &self,
        project: ProjectId,
        name: RoomName,
        wanted: ChangeRoleRequest,
        keep: Option<ResponseRecorder<RoleChanged>>,
    ) -> Result<RoleChanged, TreeError> {
        self.ask(project, |reply| ProjectMsg::ChangeRole { name, wanted, keep, reply }).await
    }

    /// Starts a recording or a broadcast: on the media plane first, then in the records.
    ///
    /// # Errors
    /// Refused when the room has ended meanwhile, or the media plane names an egress that is known; the media plane's own.
    pub async fn start_egress(
        &self,
        project: ProjectId,
        wanted: StartEgressRequest,
        keep: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, TreeError> {
        let wanted = Box::new(wanted);
        self.ask_within(START_TIMEOUT, project, |reply| ProjectMsg::StartEgress { wanted, keep, reply }).await
    }

    /// Asks the media plane how a job stands, writes it, and gives the record. One that is final is given as it is.
    ///
    /// # Errors
    /// The media plane's own.
    pub async fn refresh_egress(&self, project: ProjectId, id: EgressId) -> Result<Egress, TreeError> {
        self.ask(project, |reply| ProjectMsg::ToJob { id, message: EgressMsg::Refresh(reply) }).await
    }

    /// Tells a job to finish. One that is final is given as it is.
    ///
    /// # Errors
    /// The media plane's own.
    pub async fn stop_egress(
        &self,
        project: ProjectId,
        id: EgressId,
        keep: Option<ResponseRecorder<Egress>>,
    ) -> Result<Egress, TreeError> {
        self.ask(project, |reply| ProjectMsg::ToJob { id, message: EgressMsg::Stop { keep, reply } }).await
    }

    /// Makes an ingress endpoint: on the media plane first, then in the records.
    ///
    /// # Errors
    /// Refused when the room has ended meanwhile, or the media plane names an endpoint that is known; the media plane's own.
    pub async fn create_ingress(
        &self,
        project: ProjectId,
        wanted: CreateIngressRequest,
    ) -> Result<CreatedIngress, TreeError> {
        let wanted = Box::new(wanted);
        self.ask_within(START_TIMEOUT, project, |reply| ProjectMsg::CreateIngress { wanted, reply }).await
    }

    /// Asks the media plane how an endpoint stands, writes it, and gives the record. One that is final is given as it is.
    ///
    /// # Errors
    /// The media plane's own.
    pub async fn refresh_ingress(&self, project: ProjectId, id: IngressId) -> Result<Ingress, TreeError> {
        self.ask(project, |reply| ProjectMsg::ToIngress { id, message: IngressMsg::Refresh(reply) }).await
    }

    /// Deletes an endpoint: on the media plane first, so that its key opens nothing, then in the records.
    ///
    /// # Errors
    /// The media plane's own.
    pub async fn delete_ingress(&self, project: ProjectId, id: IngressId) -> Result<Ingress, TreeError> {
        self.ask(project, |reply| ProjectMsg::ToIngress { id, message: IngressMsg::Delete(reply) }).await
    }

    /// The media plane answers again after it was away: what was missed meanwhile is looked for at once.
    pub fn media_returned(&self) {
        // A tree that is stopping looks when it starts again.
        let _ = self.system.cast(SystemMsg::MediaReturned);
    }

    /// A receiver is new, or something was put back in its queue.
    pub fn wake_endpoint(&self, project: ProjectId, endpoint: EndpointId) {
        self.tell(project, ProjectMsg::Queued(vec![endpoint]));
    }

    /// A receiver was deleted.
    pub fn endpoint_deleted(&self, project: ProjectId, endpoint: EndpointId) {
        self.tell(project, ProjectMsg::EndpointDeleted(endpoint));
    }

    fn tell(&self, project: ProjectId, message: ProjectMsg) {
        let message = SystemMsg::ToProject { project, message: Box::new(message) };
        // A tree that is stopping finds it in the database when it starts again.
        let _ = self.system.cast(message);
    }

    async fn ask<T, E, F>(&self, project: ProjectId, message: F) -> Result<T, TreeError>
    where
        T: Send + 'static,
        E: Into<TreeError> + Send + 'static,
        F: FnOnce(RpcReplyPort<Result<T, E>>) -> ProjectMsg,
    {
        self.ask_within(CALL_TIMEOUT, project, message).await
    }

    async fn ask_within<T, E, F>(&self, patience: Duration, project: ProjectId, message: F) -> Result<T, TreeError>
    where
        T: Send + 'static,
        E: Into<TreeError> + Send + 'static,
        F: FnOnce(RpcReplyPort<Result<T, E>>) -> ProjectMsg,
    {
        let answer = match self.projects.get(&project) {
            Some(running) => running.call(message, patience).await,
            // A project that does not run yet is started on the way.
            None => {
                let wrap = |reply| SystemMsg::ToProject { project, message: Box::new(message(reply)) };
                self.system.call(wrap, patience).await
            }
        };
        answer.map_err(|_| TreeError::NoAnswer)?.map_err(Into::into)
    }
}

impl ReportSink for Tree {
    fn report(&self, report: Report) -> ReportAnswer {
        let (answer, taken) = oneshot::channel();
        // When the tree is gone the answer is dropped, which the media plane reads as unavailable.
        let _ = self.system.cast(SystemMsg::Report { report, answer });
        taken
    }
}
