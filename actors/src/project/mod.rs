//! The project actor: supervises a project's rooms, egresses, ingress endpoints and webhook endpoints, and counts its rooms.
//!
//! Every message to a child goes through here, so it waits while the child is rebuilt and keeps its order. The handlers are
//! short: writes, and calls to the media plane, run in spawned tasks and come back as messages.
//!
//! - [`message`], [`state`]: the messages and the state.
//! - [`children`], [`pending`]: how children are spawned, fail and are rebuilt.
//! - [`rooms`], [`hibernation`]: rooms, with or without a process.
//! - [`followed`], [`followed_set`], [`egresses`], [`ingresses`]: recordings, broadcasts and ingress endpoints.
//! - [`unanswered`]: starts of recordings and broadcasts whose answer was lost.
//! - [`reconcile`]: reconciliation of the records with the media plane.
//!
//! Limits: the plan's maximum number of open rooms; 1,000 messages that wait for one child.
//!
//! Supervision: the system actor starts it with the first message to the project, or at start if the project has something
//! live, and rebuilds it after a failure. It stops with the system actor.

mod children;
mod egresses;
mod followed;
mod hibernation;
mod ingresses;
mod message;
mod reconcile;
mod rooms;
mod state;

use std::sync::Arc;

use conclave_db::RunningEgress;
use conclave_model::ProjectId;
use conclave_model::ingress::Ingress;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::context::ActorContext;
use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, ReportPath};

pub use message::{ChildKey, CreateIngressReply, CreateIngressRequest, ProjectMsg, RoomReply};
pub use state::ProjectState;

/// The parts of a project actor that do not change.
pub struct ProjectActor {
    /// What all actors share.
    pub context: Arc<ActorContext>,
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// The id of the project.
    pub id: ProjectId,
    /// The path to this actor that reports take.
    pub path: ReportPath<ProjectMsg>,
}

impl ProjectActor {
    async fn dispatch(
        &self,
        me: &Mailbox<ProjectMsg>,
        state: &mut ProjectState,
        message: ProjectMsg,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ProjectMsg::Populate => self.populate(me, state).await?,
            ProjectMsg::CreateRoom {
                new,
                limit,
                recorder,
                reply,
            } => {
                self.create_room(me, state, *new, limit, recorder, reply);
            }
            ProjectMsg::RoomCreated { result, reply } => {
                self.room_created(me, state, *result, reply);
            }
            ProjectMsg::StartEgress {
                plan,
                recorder,
                reply,
            } => {
                self.start_egress(me, state, plan, recorder, reply);
            }
            ProjectMsg::EgressStarted {
                result,
                unanswered,
                reply,
            } => {
                self.egress_started(me, state, *result, unanswered, reply)
                    .await;
            }
            ProjectMsg::UnansweredFound(seen) => self.unanswered_found(state, *seen),
            ProjectMsg::CreateIngress { request, reply } => {
                self.create_ingress(me, state, *request, reply);
            }
            ProjectMsg::IngressCreated { result, reply } => {
                self.ingress_created(me, state, *result, reply).await;
            }
            ProjectMsg::Room { name, msg } => self.forward_to_room(me, state, &name, msg),
            ProjectMsg::Egress { id, msg } => self.forward::<RunningEgress>(state, id, msg),
            ProjectMsg::Ingress { id, msg } => self.forward::<Ingress>(state, id, msg),
            ProjectMsg::WebhookEndpoint { id, msg } => {
                self.forward_to_webhook_endpoint(me, state, id, msg).await;
            }
            ProjectMsg::IngressObserved { id, observation } => {
                self.ingress_observed(me, state, id, observation);
            }
            ProjectMsg::Reports(name) => self.reports_waiting(me, state, &name),
            ProjectMsg::FollowedReport { report, answer } => {
                self.pass_report(me, state, report, answer);
            }
            ProjectMsg::WebhookEndpointDeleted(id) => self.webhook_endpoint_deleted(state, id),
            ProjectMsg::Restore(key) => self.restore(me, state, key).await,
            ProjectMsg::RoomLoaded { name, snapshot } => {
                self.room_loaded(me, state, &name, *snapshot).await;
            }
            ProjectMsg::EgressLoaded { id, record } => self.loaded(me, state, id, *record).await,
            ProjectMsg::IngressLoaded { id, record } => self.loaded(me, state, id, *record).await,
            ProjectMsg::HibernationDeadline => self.hibernation_deadline(me, state),
            ProjectMsg::EndDueRoom(permit) => self.end_due_room(me, state, permit),
            ProjectMsg::Reconcile => self.reconcile(me, state),
            ProjectMsg::Surveyed(survey) => self.surveyed(me, state, *survey),
            ProjectMsg::Inspect(reply) => drop(reply.send(state.inspect())),
        }
        Ok(())
    }
}

impl Actor for ProjectActor {
    type Msg = ProjectMsg;
    type State = ProjectState;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<ProjectMsg>,
        (): (),
    ) -> Result<ProjectState, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        // Sent before the actor is known to others, so nothing is handled before its children are there.
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        me.cast(ProjectMsg::Populate)
            .map_err(|_| "the mailbox is closed")?;
        Ok(ProjectState::new(&self.id, &Arc::from(&*self.info.id)))
    }

    async fn handle(
        &self,
        myself: ActorRef<ProjectMsg>,
        message: ProjectMsg,
        state: &mut ProjectState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        self.info.record_message(self.context.clock.now(), &message);
        self.dispatch(&me, state, message).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<ProjectMsg>,
        event: SupervisionEvent,
        state: &mut ProjectState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        match event {
            SupervisionEvent::ActorTerminated(child, last_state, _) => {
                self.child_stopped(&me, state, child.get_id(), last_state)
                    .await;
            }
            SupervisionEvent::ActorFailed(child, reason) => {
                self.child_failed(&me, state, child.get_id(), &reason.to_string());
            }
            _ => {}
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<ProjectMsg>,
        _: &mut ProjectState,
    ) -> Result<(), ActorProcessingErr> {
        // A parent's exit would kill its children in the middle of a message; stopping lets them finish it.
        myself
            .stop_children_and_wait(None, Some(self.context.settings.stop_timeout(1)))
            .await;
        Ok(())
    }
}
