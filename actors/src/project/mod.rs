//! The project actor: supervises a project's rooms, jobs, ingresses and webhook endpoints, and counts what must be counted.
//!
//! Everything that concerns a room goes through here, so that it waits when the room's actor is being restored and keeps
//! its order. The handlers are short: writes run beside the actor and come back as messages.

mod child_set;
mod children;
mod egresses;
mod hibernation;
mod ingresses;
mod pending;
mod reconcile;
mod rooms;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use conclave_db::{NewRoom, RoomSnapshot, RunningEgress, StoreError};
use conclave_media::{MediaError, Report, ReportError, Survey};
use conclave_model::egress::Egress;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::ingress::Ingress;
use conclave_model::role_change::RoleChanged;
use conclave_model::room::Room;
use conclave_model::{EgressId, EndpointId, IngressId, ProjectId, RoomName, Timestamp};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use serde_json::json;
use tokio::sync::oneshot;

use self::child_set::ChildSet;
use self::pending::PendingSpawns;
use crate::context::ActorContext;
use crate::egress::{EgressMsg, EgressReply};
use crate::error::TreeError;
use crate::info::{ActorInfo, ActorKind};
use crate::ingress::{CreatedIngress, IngressMsg};
use crate::inspection::{InspectMessage, Inspection};
use crate::mailbox::Mailbox;
use crate::room::{ChangeRoleRequest, RoleReply, RoomMsg};
use crate::system::SystemMsg;
use crate::timer::Timer;
use crate::webhook_endpoint::WebhookEndpointMsg;

pub use self::egresses::StartEgressRequest;
pub use self::ingresses::{CreateIngressReply, CreateIngressRequest};

/// The reply to making a room.
pub type RoomReply = RpcReplyPort<Result<Room, StoreError>>;

/// What a project actor understands.
#[derive(Debug)]
pub enum ProjectMsg {
    /// Take up every open room and active endpoint. The first message of a project's life.
    Populate,
    /// Make a room.
    CreateRoom {
        /// What is asked for.
        new: Box<NewRoom>,
        /// Rooms the plan lets be open at once.
        limit: Option<u32>,
        /// The answer to keep with it.
        keep: Option<ResponseRecorder<Room>>,
        /// Answered once it is durable.
        reply: RoomReply,
    },
    /// A room was made, or was not.
    RoomCreated {
        /// The write's result.
        result: Box<Result<Room, StoreError>>,
        /// Who waits for it.
        reply: RoomReply,
    },
    /// End a room. One that is not open has ended already.
    EndRoom {
        /// Which.
        name: RoomName,
        /// Answered once it is durable.
        reply: RpcReplyPort<Result<(), StoreError>>,
    },
    /// Give somebody in a room another role.
    ChangeRole {
        /// In which room.
        name: RoomName,
        /// Who gets which role, by whom.
        wanted: ChangeRoleRequest,
        /// The answer to keep with it.
        keep: Option<ResponseRecorder<RoleChanged>>,
        /// Answered once it is durable.
        reply: RoleReply,
    },
    /// Something for a room that must not overtake its reports.
    ToRoom {
        /// Which.
        name: RoomName,
        /// What.
        message: RoomMsg,
    },
    /// Start a recording or a broadcast.
    StartEgress {
        /// Which.
        wanted: Box<StartEgressRequest>,
        /// The answer to keep with it.
        keep: Option<ResponseRecorder<Egress>>,
        /// Answered once it is durable.
        reply: EgressReply,
    },
    /// A job was started, or was not.
    EgressStarted {
        /// What came of it.
        result: Box<Result<Egress, TreeError>>,
        /// Who waits for it.
        reply: EgressReply,
    },
    /// Something for a job.
    ToJob {
        /// Which.
        id: EgressId,
        /// What.
        message: EgressMsg,
    },
    /// What a failed job's actor is rebuilt from.
    EgressLoaded {
        /// Which job.
        id: EgressId,
        /// Its record; `None` when it is final.
        running: Box<Result<Option<RunningEgress>, StoreError>>,
    },
    /// Make an ingress endpoint.
    CreateIngress {
        /// Which.
        wanted: Box<CreateIngressRequest>,
        /// Answered once it is durable.
        reply: CreateIngressReply,
    },
    /// An ingress endpoint was made, or was not.
    IngressCreated {
        /// What came of it.
        result: Box<Result<CreatedIngress, TreeError>>,
        /// Who waits for it.
        reply: CreateIngressReply,
    },
    /// Something for an ingress endpoint.
    ToIngress {
        /// Which.
        id: IngressId,
        /// What.
        message: IngressMsg,
    },
    /// Say when a room's actor has handled what was reported of its room before.
    RoomBarrier {
        /// Which room.
        name: RoomName,
        /// Answered then; at once, when the room rests or has ended.
        reply: RpcReplyPort<()>,
    },
    /// What an ingress actor is rebuilt from.
    IngressLoaded {
        /// Which endpoint.
        id: IngressId,
        /// Its record; `None` when it is final.
        live: Box<Result<Option<Ingress>, StoreError>>,
    },
    /// Something happened in a room on the media plane.
    Report {
        /// What.
        report: Report,
        /// Answered once it is durable, or refused.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// Something was queued for these receivers, or they are new.
    Queued(Vec<EndpointId>),
    /// A receiver was deleted.
    EndpointDeleted(EndpointId),
    /// The wait before rebuilding a failed child is over.
    Restore(ChildKey),
    /// What a failed room is rebuilt from.
    RoomLoaded {
        /// Which room.
        name: RoomName,
        /// Its records; `None` when it has ended meanwhile.
        snapshot: Box<Result<Option<RoomSnapshot>, StoreError>>,
    },
    /// The deadline of a room at rest has come.
    HibernationDeadline,
    /// Hold the records against the media plane, and arm the timer for the next time.
    Reconcile,
    /// What is live on the media plane.
    Surveyed(Box<Result<Survey, MediaError>>),
    /// Tell about yourself.
    Inspect(RpcReplyPort<Inspection>),
}

impl ProjectMsg {
    const fn name(&self) -> &'static str {
        match self {
            Self::Populate => "populate",
            Self::CreateRoom { .. } => "create_room",
            Self::RoomCreated { .. } => "room_created",
            Self::EndRoom { .. } => "end_room",
            Self::ChangeRole { .. } => "change_role",
            Self::ToRoom { .. } => "to_room",
            Self::StartEgress { .. } => "start_egress",
            Self::EgressStarted { .. } => "egress_started",
            Self::ToJob { .. } => "to_job",
            Self::EgressLoaded { .. } => "egress_loaded",
            Self::CreateIngress { .. } => "create_ingress",
            Self::IngressCreated { .. } => "ingress_created",
            Self::ToIngress { .. } => "to_ingress",
            Self::RoomBarrier { .. } => "room_barrier",
            Self::IngressLoaded { .. } => "ingress_loaded",
            Self::Report { .. } => "report",
            Self::Queued(_) => "queued",
            Self::EndpointDeleted(_) => "endpoint_deleted",
            Self::Restore(_) => "restore",
            Self::RoomLoaded { .. } => "room_loaded",
            Self::HibernationDeadline => "hibernation_deadline",
            Self::Reconcile => "reconcile",
            Self::Surveyed(_) => "surveyed",
            Self::Inspect(_) => "inspect",
        }
    }
}

/// Which child.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ChildKey {
    /// A room.
    Room(RoomName),
    /// A recording or a broadcast.
    Job(EgressId),
    /// An ingress endpoint.
    Ingress(IngressId),
    /// A receiver.
    Endpoint(EndpointId),
}

impl InspectMessage for ProjectMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// The actor's read-only parts.
pub struct ProjectActor {
    /// Shared parts.
    pub context: Arc<ActorContext>,
    /// Its info.
    pub info: Arc<ActorInfo>,
    /// The path its children name as their parent, shared by all of them.
    pub path: Arc<str>,
    /// Which project.
    pub id: ProjectId,
    /// The way that reports come by.
    pub system: Mailbox<SystemMsg>,
}

/// The children, by what they are and by actor, and what is being counted.
pub struct ProjectState {
    rooms: ChildSet<RoomName, RoomMsg>,
    jobs: ChildSet<EgressId, EgressMsg>,
    ingresses: ChildSet<IngressId, IngressMsg>,
    endpoints: ChildSet<EndpointId, WebhookEndpointMsg>,
    by_actor: HashMap<ActorId, ChildKey>,
    /// Rooms being written: they count against the plan's ceiling before they exist.
    pending_rooms: usize,
    /// The rooms of the jobs.
    job_rooms: HashMap<EgressId, RoomName>,
    /// Jobs that the media plane may have started and that are not written yet.
    pending_egresses: PendingSpawns<EgressId, EgressMsg>,
    /// The rooms of the ingress endpoints.
    ingress_rooms: HashMap<IngressId, RoomName>,
    /// Ingress endpoints that the media plane may have made and that are not written yet.
    pending_ingresses: PendingSpawns<IngressId, IngressMsg>,
    /// Ingress endpoints on the media plane that none of the actors knows, and since when they have been seen.
    strays: HashMap<IngressId, Timestamp>,
    /// Rooms that nobody is in, by the deadline they end at.
    hibernating: BTreeSet<(Timestamp, RoomName)>,
    rest: Option<Timer>,
    reconcile: Option<Timer>,
}

impl ProjectState {
    fn new() -> Self {
        Self {
            rooms: ChildSet::new(ActorKind::Room, "room", ChildKey::Room),
            endpoints: ChildSet::new(ActorKind::WebhookEndpoint, "webhook", ChildKey::Endpoint),
            jobs: ChildSet::new(ActorKind::Egress, "egress", ChildKey::Job),
            ingresses: ChildSet::new(ActorKind::Ingress, "ingress", ChildKey::Ingress),
            by_actor: HashMap::new(),
            pending_rooms: 0,
            job_rooms: HashMap::new(),
            pending_egresses: PendingSpawns::default(),
            ingress_rooms: HashMap::new(),
            pending_ingresses: PendingSpawns::default(),
            strays: HashMap::new(),
            hibernating: BTreeSet::new(),
            rest: None,
            reconcile: None,
        }
    }
}

impl ProjectActor {
    fn inspect(state: &ProjectState) -> Inspection {
        let state_json = json!({
            "open_rooms": state.rooms.len(),
            "rooms_at_rest": state.hibernating.len(),
            "rooms_in_making": state.pending_rooms,
            "jobs": state.jobs.len(),
            "jobs_in_making": state.pending_egresses.len(),
            "ingresses": state.ingresses.len(),
            "ingresses_in_making": state.pending_ingresses.len(),
            "webhook_endpoints": state.endpoints.len(),
        });
        let timers = state.rest.iter().chain(&state.reconcile).map(Timer::view).collect();
        Inspection { timers, state: state_json }
    }
}

impl Actor for ProjectActor {
    type Msg = ProjectMsg;
    type State = ProjectState;
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<ProjectMsg>, (): ()) -> Result<ProjectState, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        // Before anybody else can send: nothing is handled until the children are there.
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        me.cast(ProjectMsg::Populate).map_err(|_| "the mailbox is closed")?;
        Ok(ProjectState::new())
    }

    async fn handle(
        &self,
        myself: ActorRef<ProjectMsg>,
        message: ProjectMsg,
        state: &mut ProjectState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        self.info.record_message(self.context.clock.now(), message.name());
        match message {
            ProjectMsg::Populate => self.populate(&me, state).await?,
            ProjectMsg::CreateRoom { new, limit, keep, reply } => {
                self.create_room(&me, state, *new, (limit, keep), reply);
            }
            ProjectMsg::RoomCreated { result, reply } => {
                self.room_created(&me, state, *result, reply);
            }
            ProjectMsg::EndRoom { name, reply } => self.pass_to_room(&me, state, &name, RoomMsg::End(reply)),
            ProjectMsg::ChangeRole { name, wanted, keep, reply } => {
                let change = RoomMsg::ChangeRole { wanted: Box::new(wanted), keep, reply };
                self.pass_to_room(&me, state, &name, change);
            }
            ProjectMsg::ToRoom { name, message } => self.pass_to_room(&me, state, &name, message),
            ProjectMsg::StartEgress { wanted, keep, reply } => self.start_egress(&me, state, *wanted, keep, reply),
            ProjectMsg::EgressStarted { result, reply } => self.egress_started(&me, state, *result, reply).await,
            ProjectMsg::ToJob { id, message } => self.pass_to_job(state, id, message),
            ProjectMsg::EgressLoaded { id, running } => self.egress_loaded(&me, state, id, *running).await,
            ProjectMsg::CreateIngress { wanted, reply } => self.create_ingress(&me, state, *wanted, reply),
            ProjectMsg::IngressCreated { result, reply } => self.ingress_created(&me, state, *result, reply).await,
            ProjectMsg::ToIngress { id, message } => self.pass_to_ingress(state, id, message),
            ProjectMsg::RoomBarrier { name, reply } => self.pass_barrier(&me, state, &name, reply),
            ProjectMsg::IngressLoaded { id, live } => self.ingress_loaded(&me, state, id, *live).await,
            ProjectMsg::Report { report, answer } => self.pass_report(&me, state, report, answer),
            ProjectMsg::Queued(endpoints) => self.wake_endpoints(&me, state, endpoints).await,
            ProjectMsg::EndpointDeleted(id) => self.drop_endpoint(state, id),
            ProjectMsg::Restore(key) => self.restore(&me, state, key).await,
            ProjectMsg::RoomLoaded { name, snapshot } => self.found(&me, state, &name, *snapshot).await,
            ProjectMsg::HibernationDeadline => self.hibernation_deadline(&me, state),
            ProjectMsg::Reconcile => self.reconcile(&me, state),
            ProjectMsg::Surveyed(survey) => self.surveyed(&me, state, *survey),
            ProjectMsg::Inspect(reply) => {
                let _ = reply.send(Self::inspect(state));
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<ProjectMsg>,
        event: SupervisionEvent,
        state: &mut ProjectState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        match event {
            SupervisionEvent::ActorTerminated(who, last_state, _) => {
                self.child_stopped(&me, state, who.get_id(), last_state).await;
            }
            SupervisionEvent::ActorFailed(who, reason) => {
                self.child_failed(&me, state, who.get_id(), reason.to_string());
            }
            _ => {}
        }
        Ok(())
    }

    async fn post_stop(&self, myself: ActorRef<ProjectMsg>, _: &mut ProjectState) -> Result<(), ActorProcessingErr> {
        // A parent's exit would kill its children in the middle of a message; stopping lets them finish it.
        myself.stop_children_and_wait(None, Some(crate::tree::STOP_TIMEOUT)).await;
        Ok(())
    }
}
