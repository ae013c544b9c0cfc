//! The room actor: one room's live people, by role, and its empty timer.
//!
//! It is the one place where what happens in a room is decided, in the order it happened. It persists each change with its
//! events before it acts on it, so it can be rebuilt from the database at any moment. It stops when its room has ended,
//! and when nobody is inside: a room at rest is a deadline that its project keeps, and takes no more memory than that.

mod repair;
mod reports;
mod roles;
mod state;

use std::sync::Arc;

use conclave_db::{RoomSnapshot, StoreError};
use conclave_media::{Report, ReportError};
use conclave_model::event::ChangedBy;
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::role_change::RoleChanged;
use conclave_model::{Identity, Problem, RoleName};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::oneshot;

use crate::context::ActorContext;
use crate::error::TreeError;
use crate::info::ActorInfo;
use crate::inspection::{InspectMessage, Inspection};
use crate::mailbox::Mailbox;
use crate::system::SystemMsg;
pub use repair::RoomObservation;
pub(crate) use state::{HibernatingRoom, RoomState};

/// The reply to changing a role.
pub type RoleReply = RpcReplyPort<Result<RoleChanged, TreeError>>;

/// Who is to get which role, and who says so.
#[derive(Debug, Clone)]
pub struct ChangeRoleRequest {
    /// Who.
    pub identity: Identity,
    /// Which; a role of the room's template.
    pub role: RoleName,
    /// Who says so.
    pub by: ChangedBy,
}

/// What a room actor understands.
#[derive(Debug)]
pub enum RoomMsg {
    /// Something happened in the room on the media plane.
    Report {
        /// What.
        report: Report,
        /// Answered once it is durable, or refused.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// Answer, and so say that whatever came before is handled.
    Barrier(RpcReplyPort<()>),
    /// End the room.
    End(RpcReplyPort<Result<(), StoreError>>),
    /// Give somebody another role.
    ChangeRole {
        /// Who gets which role, by whom.
        wanted: Box<ChangeRoleRequest>,
        /// The answer to keep with it.
        keep: Option<ResponseRecorder<RoleChanged>>,
        /// Answered once it is durable.
        reply: RoleReply,
    },
    /// The empty timer fired. Whether the room is still empty is for the state to say.
    EmptyTimeout,
    /// Hold the records against the media plane.
    Reconcile,
    /// What the media plane says of the room.
    Observed(Box<RoomObservation>),
    /// Tell about yourself.
    Inspect(RpcReplyPort<Inspection>),
}

impl RoomMsg {
    /// What a room that has ended answers.
    pub(crate) fn answer_as_ended(self) {
        match self {
            Self::Report { answer, .. } => drop(answer.send(Err(ReportError::RoomEnded))),
            Self::End(reply) => drop(reply.send(Ok(()))),
            Self::ChangeRole { reply, .. } => {
                let nobody = StoreError::Refused(Problem::participant_not_found());
                let _ = reply.send(Err(nobody.into()));
            }
            Self::Barrier(reply) => drop(reply.send(())),
            Self::EmptyTimeout | Self::Reconcile | Self::Observed(_) | Self::Inspect(_) => {}
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Report { .. } => "report",
            Self::Barrier(_) => "barrier",
            Self::End(_) => "end",
            Self::ChangeRole { .. } => "change_role",
            Self::EmptyTimeout => "empty_timeout",
            Self::Reconcile => "reconcile",
            Self::Observed(_) => "observed",
            Self::Inspect(_) => "inspect",
        }
    }
}

impl InspectMessage for RoomMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// The actor's read-only parts.
pub struct RoomActor {
    /// Shared parts.
    pub context: Arc<ActorContext>,
    /// Its info.
    pub info: Arc<ActorInfo>,
    /// The way that reports come by. What must not overtake them goes the same way.
    pub system: Mailbox<SystemMsg>,
}

impl Actor for RoomActor {
    type Msg = RoomMsg;
    type State = RoomState;
    type Arguments = RoomSnapshot;

    async fn pre_start(
        &self,
        myself: ActorRef<RoomMsg>,
        snapshot: RoomSnapshot,
    ) -> Result<RoomState, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        let mut state = RoomState::new(snapshot);
        self.arm_empty_timer(&me, &mut state);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<RoomMsg>,
        message: RoomMsg,
        state: &mut RoomState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        self.info.record_message(self.context.clock.now(), message.name());
        // Boxed, so that ten thousand idle rooms do not each hold room for the longest of these futures.
        match message {
            RoomMsg::Report { report, answer } => {
                let taken = Box::pin(self.handle_report(&me, state, report)).await;
                // A reporter that stopped waiting will report again or reconcile.
                let _ = answer.send(taken);
            }
            RoomMsg::End(reply) => {
                let ended = Box::pin(self.end(&me, state)).await;
                let _ = reply.send(ended);
            }
            RoomMsg::ChangeRole { wanted, keep, reply } => {
                let changed = Box::pin(self.change_role(state, *wanted, keep)).await;
                let _ = reply.send(changed);
            }
            RoomMsg::EmptyTimeout => Box::pin(self.end_if_empty(&me, state)).await,
            RoomMsg::Reconcile => self.ask_media(state),
            RoomMsg::Observed(seen) => Box::pin(self.repair(&me, state, *seen)).await,
            RoomMsg::Barrier(reply) => drop(reply.send(())),
            RoomMsg::Inspect(reply) => {
                let _ = reply.send(state.inspect());
            }
        }
        if state.is_idle() {
            // What has been sent by now is handled first; what comes later finds the room at rest and wakes it.
            me.actor().drain()?;
        }
        Ok(())
    }
}
