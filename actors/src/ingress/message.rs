//! The messages of an ingress actor.

use conclave_media::ReportError;
use conclave_model::ingress::{Ingress, IngressState};
use conclave_model::{Secret, Timestamp};
use ractor::RpcReplyPort;
use tokio::sync::oneshot;

use crate::barrier::BarrierWait;
use crate::error::TreeError;
use crate::inspection::{InspectMessage, Inspection};

/// The reply with the record of an ingress endpoint.
pub type IngressReply = RpcReplyPort<Result<Ingress, TreeError>>;

/// An ingress endpoint that was created and written.
#[derive(Debug)]
pub struct CreatedIngress {
    /// The record of the new endpoint.
    pub ingress: Ingress,
    /// The stream key that admits an encoder. It is not kept, so this is the only time that it can be shown.
    pub stream_key: Secret,
}

/// An answer of the media plane that is written after the room's earlier reports.
#[derive(Debug)]
pub enum IngressObservation {
    /// The endpoint has this state.
    Polled {
        /// The state that the media plane reports.
        state: IngressState,
        /// The instant of the answer.
        at: Timestamp,
        /// The caller who asked for it, if one did.
        reply: Option<IngressReply>,
    },
    /// The endpoint was deleted.
    Deleted(IngressReply),
}

/// A message to an ingress actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum IngressMsg {
    /// The media plane reports a state.
    Report {
        /// The state that the media plane reports.
        state: IngressState,
        /// The instant of the report by the media plane's clock.
        at: Timestamp,
        /// Resolves when the room's earlier reports are handled; absent if there are none.
        after: Option<BarrierWait>,
        /// Answered once the state is durable.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// The media plane has answered this actor.
    Observed {
        /// The media plane's answer to a poll.
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
