//! The project actor: supervises a project's rooms, egresses, ingress endpoints and webhook endpoints, and counts its rooms.
//!
//! Every message to a child goes through here, so it is buffered while the child is rebuilt, and keeps its order. The handlers are short:
//! writes and calls to the media plane run in spawned tasks, and come back as messages.
//!
//! The actor's state is a [`LiveProject`]. It receives the messages ([`message`]) and sequences its parts, which own their children:
//!
//! - [`context`]: the parts' shared services, and how a child is spawned and rebuilt.
//! - [`rooms`], [`hibernation`]: rooms, with or without a process.
//! - [`followed`], [`egresses`], [`ingresses`]: recordings, broadcasts and ingress endpoints.
//! - [`webhook_endpoints`]: webhook endpoints.
//! - [`reconcile`]: reconciliation of the records with the media plane.
//!
//! Limits: the plan's maximum open rooms; 1,000 buffered messages per child.
//!
//! Supervision: the system actor starts it with the first message to the project, or at server start if the project has live records, and
//! rebuilds it after a failure. It stops with the system actor.

mod context;
mod egresses;
mod followed;
mod hibernation;
mod ingresses;
mod message;
mod reconcile;
mod rooms;
mod webhook_endpoints;

use std::sync::Arc;

use conclave_db::RunningEgress;
use conclave_media::{MediaEvent, Report, ReportError};
use conclave_model::ingress::Ingress;
use conclave_model::{ProjectId, RoomName};
use ractor::actor::messages::BoxedState;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use serde_json::json;
use tokio::sync::oneshot;

use crate::context::ActorContext;
use crate::egress::EgressMsg;
use crate::info::{ActorInfo, ActorKind};
use crate::mailbox::{ReportPath, Timer};
use crate::registry::Inspection;
use crate::room::LiveRoom;
use context::ProjectContext;
use egresses::UnansweredStarts;
use followed::FollowedSet;
use rooms::Rooms;
use webhook_endpoints::WebhookEndpoints;

pub use message::{ChildKey, CreateIngressReply, CreateIngressRequest, ProjectMsg, RoomReply};

/// Arguments for a project's actor, set once by the system actor.
pub struct ProjectActor {
    /// Services and settings shared by all actors.
    pub context: Arc<ActorContext>,
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// Project id.
    pub id: ProjectId,
    /// Report path to this actor.
    pub path: ReportPath<ProjectMsg>,
}

/// Project with an actor: its children by kind.
pub struct LiveProject {
    context: ProjectContext,
    rooms: Rooms,
    egresses: FollowedSet<RunningEgress>,
    unanswered: UnansweredStarts,
    ingresses: FollowedSet<Ingress>,
    webhook_endpoints: WebhookEndpoints,
    reconcile_timer: Option<Timer>,
}

impl LiveProject {
    fn new(actor: &ProjectActor, me: ActorRef<ProjectMsg>) -> Self {
        let context = ProjectContext::new(actor, me);
        Self {
            rooms: Rooms::new(&context),
            egresses: FollowedSet::new(&context, ActorKind::Egress, "egress"),
            unanswered: UnansweredStarts::default(),
            ingresses: FollowedSet::new(&context, ActorKind::Ingress, "ingress"),
            webhook_endpoints: WebhookEndpoints::new(&context),
            reconcile_timer: None,
            context,
        }
    }

    async fn handle(&mut self, message: ProjectMsg) -> Result<(), ActorProcessingErr> {
        let context = &mut self.context;
        match message {
            ProjectMsg::Populate => self.populate().await?,
            // The limit is checked in this actor, which alone counts the project's rooms.
            ProjectMsg::CreateRoom {
                new,
                limit,
                recorder,
                reply,
            } => self.rooms.create(context, *new, limit, recorder, reply),
            ProjectMsg::RoomCreated { result, reply } => {
                self.rooms.created(context, *result, reply);
            }
            ProjectMsg::StartEgress {
                plan,
                recorder,
                reply,
            } => self.egresses.start(context, plan, recorder, reply),
            ProjectMsg::EgressStarted {
                result,
                unanswered,
                reply,
            } => {
                if let Some(start) = unanswered {
                    self.unanswered.add(start);
                }
                self.egresses
                    .started(context, &self.rooms, *result, reply)
                    .await;
                // A search for lost starts waits until no start is running.
                self.unanswered.look(&self.context, &self.egresses);
            }
            ProjectMsg::UnansweredFound(seen) => {
                self.unanswered.found(context, &self.egresses, *seen);
            }
            ProjectMsg::CreateIngress { request, reply } => {
                self.ingresses.create(context, *request, reply);
            }
            ProjectMsg::IngressCreated { result, reply } => {
                self.ingresses
                    .created(context, &self.rooms, *result, reply)
                    .await;
            }
            ProjectMsg::Room { name, msg } => self.rooms.forward(context, &name, msg),
            ProjectMsg::Egress { id, msg } => self.egresses.forward(context, id, msg),
            ProjectMsg::Ingress { id, msg } => self.ingresses.forward(context, id, msg),
            ProjectMsg::WebhookEndpoint { id, msg } => {
                self.webhook_endpoints.forward(context, id, msg).await;
            }
            ProjectMsg::IngressObserved { id, observation } => {
                self.ingresses
                    .observed(context, &mut self.rooms, id, observation);
            }
            ProjectMsg::Reports(name) => self.rooms.reports_waiting(context, &name),
            ProjectMsg::FollowedReport { report, answer } => self.pass_report(report, answer),
            ProjectMsg::WebhookEndpointDeleted(id) => self.webhook_endpoints.deleted(context, id),
            ProjectMsg::Restore(key) => self.restore(key).await,
            // `None` means that the room has ended, or has no record.
            ProjectMsg::RoomLoaded { name, snapshot } => match snapshot.transpose() {
                Some(snapshot) => self.rooms.loaded(context, &name, snapshot).await,
                None => self.room_ended(&name),
            },
            ProjectMsg::EgressLoaded { id, record } => {
                self.egresses.loaded(context, id, *record).await;
            }
            ProjectMsg::IngressLoaded { id, record } => {
                self.ingresses.loaded(context, id, *record).await;
            }
            ProjectMsg::HibernationDeadline => self.rooms.deadline_came(context),
            ProjectMsg::EndDueRoom(permit) => self.rooms.end_due(context, permit),
            ProjectMsg::Reconcile => self.reconcile(),
            ProjectMsg::Surveyed(survey) => self.surveyed(*survey),
            ProjectMsg::Inspect(reply) => drop(reply.send(self.inspect())),
        }
        Ok(())
    }

    /// Starts the actors of all live records, and reconciles at once, since nothing was reported while the server was down.
    async fn populate(&mut self) -> Result<(), ActorProcessingErr> {
        // An error fails the project, which is rebuilt after a delay. Its messages are buffered by the root meanwhile.
        let context = &mut self.context;
        let live = context
            .shared
            .store
            .server()
            .live_records(context.id.clone())
            .await?;
        self.rooms
            .populate(context, live.rooms, live.lacks_rooms)
            .await;
        for record in live.egresses {
            self.egresses.follow(context, record).await;
        }
        for record in live.ingresses {
            self.ingresses.follow(context, record).await;
        }
        for id in live.webhook_endpoints {
            self.webhook_endpoints.spawn(context, id).await;
        }
        self.reconcile();
        Ok(())
    }

    /// Delivers a report to the actor of its object.
    fn pass_report(&mut self, report: Report, answer: oneshot::Sender<Result<(), ReportError>>) {
        let (context, at) = (&self.context, report.at);
        match report.event {
            MediaEvent::Egress(state) => {
                let id = state.egress_id.clone();
                let message = EgressMsg::Report { state, at, answer };
                self.egresses.deliver_report(context, id, message);
            }
            MediaEvent::Ingress(state) => {
                let (_, room) = report.room.split();
                self.ingresses
                    .reported(context, &mut self.rooms, (room, state, at), answer);
            }
            // All others are in the queue of their room.
            _ => drop(answer.send(Err(ReportError::Unavailable))),
        }
    }

    /// Removes a room that has ended, after notifying the objects followed in it.
    fn room_ended(&mut self, name: &RoomName) {
        self.egresses.end_room(name);
        self.ingresses.end_room(name);
        self.rooms.forget(&self.context, name);
    }

    /// Handles a child that stopped by itself: its record is final, or its room hibernates.
    async fn child_stopped(&mut self, process: ActorId, last_state: Option<BoxedState>) {
        let context = &mut self.context;
        match context.take_child(process) {
            Some(ChildKey::Room(name)) => {
                // The last state comes with the notification, so a room that hibernates is not read again.
                let last = last_state.and_then(|mut last| last.take::<LiveRoom>().ok());
                match last.filter(LiveRoom::is_open) {
                    Some(last) => self.rooms.stopped(context, last).await,
                    None => self.room_ended(&name),
                }
            }
            // These stop only when their records are final.
            Some(ChildKey::Egress(id)) => self.egresses.forget(context, &id),
            Some(ChildKey::Ingress(id)) => self.ingresses.forget(context, &id),
            Some(ChildKey::WebhookEndpoint(id)) => self.webhook_endpoints.forget(context, id),
            None => {}
        }
    }

    /// Handles a failed child: it is rebuilt from the database, without an effect on its siblings.
    fn child_failed(&mut self, process: ActorId, reason: &str) {
        let context = &mut self.context;
        let Some(key) = context.take_child(process) else {
            return;
        };
        log::error!(project = context.id.as_str(); "{key:?} failed and will be rebuilt: {reason}");
        match key {
            ChildKey::Room(name) => self.rooms.failed(context, &name, reason),
            ChildKey::Egress(id) => self.egresses.failed(context, &id, reason),
            ChildKey::Ingress(id) => self.ingresses.failed(context, &id, reason),
            ChildKey::WebhookEndpoint(id) => self.webhook_endpoints.failed(context, id, reason),
        }
    }

    /// Rebuilds a child. A webhook endpoint reads its own queue; for the others the records are read first.
    async fn restore(&mut self, key: ChildKey) {
        let context = &mut self.context;
        match key {
            ChildKey::Room(name) => self.rooms.restore(context, name),
            ChildKey::Egress(id) => FollowedSet::<RunningEgress>::load(context, id),
            ChildKey::Ingress(id) => FollowedSet::<Ingress>::load(context, id),
            ChildKey::WebhookEndpoint(id) => self.webhook_endpoints.restore(context, id).await,
        }
    }

    /// Returns the snapshot for the debug endpoint.
    fn inspect(&self) -> Inspection {
        let state = json!({
            "open_rooms": self.rooms.open(),
            "rooms_hibernating": self.rooms.hibernating(),
            "rooms_pending": self.rooms.pending(),
            "egresses": self.egresses.len(),
            "egresses_pending": self.egresses.pending(),
            "ingresses": self.ingresses.len(),
            "ingresses_pending": self.ingresses.pending(),
            "webhook_endpoints": self.webhook_endpoints.len(),
        });
        let timers = self.rooms.timer().into_iter().chain(&self.reconcile_timer);
        Inspection {
            timers: timers.map(Timer::view).collect(),
            state,
        }
    }
}

impl Actor for ProjectActor {
    type Msg = ProjectMsg;
    type State = LiveProject;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<ProjectMsg>,
        (): (),
    ) -> Result<LiveProject, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        let project = LiveProject::new(self, myself);
        // Sent before other actors know this one, so its children exist before it handles any other message.
        let sent = project.context.me.cast(ProjectMsg::Populate);
        sent.map_err(|_| "the mailbox is closed")?;
        Ok(project)
    }

    async fn handle(
        &self,
        _: ActorRef<ProjectMsg>,
        message: ProjectMsg,
        project: &mut LiveProject,
    ) -> Result<(), ActorProcessingErr> {
        self.info.record_message(self.context.clock.now(), &message);
        project.handle(message).await
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<ProjectMsg>,
        event: SupervisionEvent,
        project: &mut LiveProject,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(child, last_state, _) => {
                project.child_stopped(child.get_id(), last_state).await;
            }
            SupervisionEvent::ActorFailed(child, reason) => {
                project.child_failed(child.get_id(), &reason.to_string());
            }
            // A child's start is no news: the project has spawned it.
            _ => {}
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<ProjectMsg>,
        _: &mut LiveProject,
    ) -> Result<(), ActorProcessingErr> {
        // Otherwise the exit of a parent kills its children in the middle of a message. Stopping lets them finish it.
        myself
            .stop_children_and_wait(None, Some(self.context.settings.stop_timeout(1)))
            .await;
        Ok(())
    }
}
