//! The ingress actor: follows one endpoint until it is final.
//!
//! It is the one place where an endpoint's record is moved while its room is open: by reports of the media plane, by answers
//! to questions it asked, by its owner who deletes it. Each move is written with its event before anybody is told, and after
//! what its encoder did in the room before it, since the room tells that. The end of the room completes the record in its
//! own transaction; the actor then takes the endpoint off the media plane, and stops.

mod follow;

use std::sync::Arc;

use conclave_media::ReportError;
use conclave_model::ingress::{Ingress, IngressState, IngressStatus};
use conclave_model::{Secret, Timestamp};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use serde_json::json;
use tokio::sync::oneshot;

use crate::answer::LastAnswer;
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::info::ActorInfo;
use crate::inspection::{InspectMessage, Inspection};
use crate::mailbox::Mailbox;
use crate::system::SystemMsg;

pub(crate) use follow::take_off;

/// The reply to whoever asked for an endpoint, or for its end.
pub type IngressReply = RpcReplyPort<Result<Ingress, TreeError>>;

/// An endpoint that was made and written.
#[derive(Debug)]
pub struct CreatedIngress {
    /// The record.
    pub ingress: Ingress,
    /// What lets an encoder in; this is the one time that it is there to be shown.
    pub stream_key: Secret,
}

/// What an ingress actor understands.
#[derive(Debug)]
pub enum IngressMsg {
    /// The media plane says how the endpoint stands.
    Report {
        /// How.
        said: IngressState,
        /// When that was, by the media plane's clock.
        at: Timestamp,
        /// Answered once it is durable.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// Ask the media plane how the endpoint stands, and give the record as it is then.
    Refresh(IngressReply),
    /// Take the endpoint away.
    Delete(IngressReply),
    /// The room has ended, and the record with it.
    RoomEnded,
    /// Ask the media plane how the endpoint stands; it may have said so and not been heard.
    Poll,
    /// Tell about yourself.
    Inspect(RpcReplyPort<Inspection>),
}

impl IngressMsg {
    const fn name(&self) -> &'static str {
        match self {
            Self::Report { .. } => "report",
            Self::Refresh(_) => "refresh",
            Self::Delete(_) => "delete",
            Self::RoomEnded => "room_ended",
            Self::Poll => "poll",
            Self::Inspect(_) => "inspect",
        }
    }
}

impl InspectMessage for IngressMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// The actor's read-only parts.
pub struct IngressActor {
    /// Shared parts.
    pub context: Arc<ActorContext>,
    /// Its info.
    pub info: Arc<ActorInfo>,
    /// The way to the room's actor that the media plane's reports take, too.
    pub system: Mailbox<SystemMsg>,
}

/// The record as last written, and what the media plane last said.
pub struct IngressActorState {
    ingress: Ingress,
    last_answer: Option<LastAnswer<IngressStatus>>,
}

impl IngressActorState {
    /// Never the record as a whole: it holds the hash of the stream key.
    fn inspect(&self) -> Inspection {
        let state = json!({
            "room": self.ingress.room,
            "input_type": self.ingress.input_type,
            "participant_identity": self.ingress.participant_identity,
            "status": self.ingress.status,
            "last_answer": self.last_answer,
        });
        Inspection { timers: Vec::new(), state }
    }
}

impl Actor for IngressActor {
    type Msg = IngressMsg;
    type State = IngressActorState;
    type Arguments = Ingress;

    async fn pre_start(
        &self,
        _: ActorRef<IngressMsg>,
        ingress: Ingress,
    ) -> Result<IngressActorState, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        Ok(IngressActorState { ingress, last_answer: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<IngressMsg>,
        message: IngressMsg,
        state: &mut IngressActorState,
    ) -> Result<(), ActorProcessingErr> {
        self.info.record_message(self.context.clock.now(), message.name());
        match message {
            IngressMsg::Report { said, at, answer } => {
                let taken = self.handle_report(state, said, at).await;
                // A reporter that stopped waiting reports again, or is asked.
                let _ = answer.send(taken);
            }
            IngressMsg::Refresh(reply) => {
                let refreshed = self.refresh(state).await;
                let _ = reply.send(refreshed);
            }
            IngressMsg::Delete(reply) => {
                let deleted = self.delete(state).await;
                let _ = reply.send(deleted);
            }
            IngressMsg::RoomEnded => self.complete(state),
            IngressMsg::Poll => self.poll(state).await,
            IngressMsg::Inspect(reply) => {
                let _ = reply.send(state.inspect());
                return Ok(());
            }
        }
        if state.ingress.status.is_final() {
            // What has been sent by now is handled first; what comes later finds the record.
            myself.drain()?;
        }
        Ok(())
    }
}
