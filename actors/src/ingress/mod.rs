//! The ingress actor: follows one ingress endpoint until its status is final.
//!
//! While the room is open only this actor changes the record, after reports of the media plane, replies to its polls, and its deletion.
//! Each change is written with its event before anyone is notified, and after the encoder's earlier events in the room. The end of the room
//! completes the record in its own transaction; the actor then deletes the endpoint on the media plane.
//!
//! Limits: a write waits at most 20 s for the room's earlier reports.
//!
//! Supervision: the project actor starts it with the endpoint, and rebuilds it from the record after a failure. It stops when the endpoint
//! is final.

mod follow;

use std::sync::Arc;

use conclave_media::ReportError;
use conclave_model::ingress::{Ingress, IngressState, IngressStatus};
use conclave_model::{Secret, Timestamp};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use serde_json::json;
use tokio::sync::oneshot;

use crate::context::ActorContext;
use crate::error::TreeError;
use crate::follow::{Follower, LastReply};
use crate::info::ActorInfo;
use crate::mailbox::{BarrierWait, ReportPath};
use crate::registry::{InspectMessage, Inspection};

pub(crate) use follow::delete_on_plane;

/// Reply with the record of an ingress endpoint.
pub type IngressReply = RpcReplyPort<Result<Ingress, TreeError>>;

/// Created ingress endpoint.
#[derive(Debug)]
pub struct CreatedIngress {
    /// The new endpoint's record.
    pub ingress: Ingress,
    /// Stream key that admits an encoder. It is not stored, so this is the only time that it can be shown.
    pub stream_key: Secret,
}

/// Reply of the media plane, which is written after the room's earlier reports.
#[derive(Debug)]
pub enum IngressObservation {
    /// The endpoint has this state.
    Polled {
        /// State reported by the media plane.
        state: IngressState,
        /// Reply time.
        at: Timestamp,
        /// Caller that requested the poll, if there is one.
        reply: Option<IngressReply>,
    },
    /// The endpoint was deleted.
    Deleted(IngressReply),
}

/// Message to an ingress actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum IngressMsg {
    /// The media plane reports a state.
    Report {
        /// State reported by the media plane.
        state: IngressState,
        /// Report time, by the media plane's clock.
        at: Timestamp,
        /// Resolves when the room's earlier reports are handled; absent if there are none.
        after: Option<BarrierWait>,
        /// Replied to once the state is durable.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// The media plane has replied to this actor.
    Observed {
        /// The reply.
        observation: IngressObservation,
        /// Resolves when the room's earlier reports are handled; absent if there are none.
        after: Option<BarrierWait>,
    },
    /// Poll the media plane, then return the record.
    Refresh(IngressReply),
    /// Delete the endpoint.
    Delete(IngressReply),
    /// The room has ended, which completed the record.
    RoomEnded,
    /// Poll the media plane, in case a report was lost.
    Poll,
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

impl InspectMessage for IngressMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// Arguments for an ingress actor, set once by the project.
pub struct IngressActor {
    /// Services and settings shared by all actors.
    pub context: Arc<ActorContext>,
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// Report path to this actor.
    pub path: ReportPath<IngressObservation>,
}

/// Ingress endpoint with an actor: the last written record, and the media plane's last reply.
pub struct LiveIngress {
    context: Arc<ActorContext>,
    info: Arc<ActorInfo>,
    path: ReportPath<IngressObservation>,
    ingress: Ingress,
    last_answer: Option<LastReply<IngressStatus>>,
    /// Barrier for the observation that is being handled.
    after: Option<BarrierWait>,
}

impl LiveIngress {
    async fn handle(&mut self, message: IngressMsg) {
        match message {
            IngressMsg::Report {
                state,
                at,
                after,
                answer,
            } => {
                // Stored for `record`, which is called through the common trait.
                self.after = after;
                let result = self.handle_report(state, at).await;
                // A reporter that has stopped waiting reports again, or is polled.
                let _ = answer.send(result);
            }
            IngressMsg::Observed { observation, after } => {
                self.write_observation(observation, after).await;
            }
            IngressMsg::Refresh(reply) => self.refresh(reply).await,
            IngressMsg::Delete(reply) => self.delete(reply).await,
            // The record is final by now, so only the media plane is left.
            IngressMsg::RoomEnded => self.complete(),
            IngressMsg::Poll => self.poll().await,
            IngressMsg::Inspect(reply) => drop(reply.send(self.inspect())),
        }
    }

    /// Returns the snapshot, but never the whole record, which contains the stream key's hash.
    fn inspect(&self) -> Inspection {
        let state = json!({
            "room": self.ingress.room,
            "input_type": self.ingress.input_type,
            "participant_identity": self.ingress.participant_identity,
            "status": self.ingress.status,
            "last_answer": self.last_answer,
        });
        Inspection {
            timers: Vec::new(),
            state,
        }
    }
}

impl Actor for IngressActor {
    type Msg = IngressMsg;
    type State = LiveIngress;
    type Arguments = Ingress;

    async fn pre_start(
        &self,
        _: ActorRef<IngressMsg>,
        ingress: Ingress,
    ) -> Result<LiveIngress, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        Ok(LiveIngress {
            context: Arc::clone(&self.context),
            info: Arc::clone(&self.info),
            path: self.path.clone(),
            ingress,
            last_answer: None,
            after: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<IngressMsg>,
        message: IngressMsg,
        ingress: &mut LiveIngress,
    ) -> Result<(), ActorProcessingErr> {
        self.info.record_message(self.context.clock.now(), &message);
        let is_inspection = matches!(message, IngressMsg::Inspect(_));
        ingress.handle(message).await;
        if !is_inspection && ingress.ingress.status.is_final() {
            // Messages sent by now are handled first. Later ones get their reply from the record.
            myself.drain()?;
        }
        Ok(())
    }
}
