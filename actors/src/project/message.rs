//! The messages of a project actor.

use std::sync::Arc;

use conclave_db::{NewRoom, RoomSnapshot, RunningEgress, StoreError};
use conclave_media::{IngressRequest, MediaError, MediaInventory, Report, ReportError};
use conclave_model::egress::{Egress, EgressPlan};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::ingress::Ingress;
use conclave_model::permits::ProjectPermit;
use conclave_model::room::Room;
use conclave_model::{
    EgressId, EndpointId, IngressId, NamespacedRoom, RoomId, RoomName, Timestamp,
};
use ractor::RpcReplyPort;
use tokio::sync::oneshot;

use crate::egress::{EgressMsg, EgressReply};
use crate::error::TreeError;
use crate::ingress::{CreatedIngress, IngressMsg, IngressObservation};
use crate::registry::{InspectMessage, Inspection};
use crate::room::RoomMsg;
use crate::webhook_endpoint::WebhookEndpointMsg;

/// The reply to the creation of a room.
pub type RoomReply = RpcReplyPort<Result<Room, TreeError>>;
/// The reply to the creation of an ingress endpoint.
pub type CreateIngressReply = RpcReplyPort<Result<CreatedIngress, TreeError>>;

/// A request to create an ingress endpoint.
#[derive(Debug)]
pub struct CreateIngressRequest {
    /// The id of the room that the encoder publishes into.
    pub room: RoomId,
    /// The request to the media plane.
    pub ingress: IngressRequest,
}

/// A start that failed although an egress may run.
#[derive(Debug)]
pub struct UnansweredStart {
    /// What was to be started.
    pub plan: Arc<EgressPlan>,
    /// The instant of the request.
    pub at: Timestamp,
}

/// Egresses that starts without an answer may have begun.
#[derive(Debug)]
pub struct UnansweredFound {
    /// The instant at which the media plane was asked.
    pub(super) asked_at: Timestamp,
    /// The running egresses, with their rooms.
    pub(super) found: Result<Vec<(NamespacedRoom, EgressId)>, MediaError>,
}

/// The name of a project's child.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ChildKey {
    /// A room, by its name in the project.
    Room(RoomName),
    /// A recording or a broadcast.
    Egress(EgressId),
    /// An ingress endpoint.
    Ingress(IngressId),
    /// A webhook endpoint.
    WebhookEndpoint(EndpointId),
}

impl From<RoomName> for ChildKey {
    fn from(name: RoomName) -> Self {
        Self::Room(name)
    }
}

impl From<EgressId> for ChildKey {
    fn from(id: EgressId) -> Self {
        Self::Egress(id)
    }
}

impl From<IngressId> for ChildKey {
    fn from(id: IngressId) -> Self {
        Self::Ingress(id)
    }
}

impl From<EndpointId> for ChildKey {
    fn from(id: EndpointId) -> Self {
        Self::WebhookEndpoint(id)
    }
}

/// A message to a project actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ProjectMsg {
    /// Start the actors of everything live. The first message of a project actor.
    Populate,
    /// Create a room.
    CreateRoom {
        /// The name and the settings of the new room.
        new: Box<NewRoom>,
        /// Maximum number of open rooms in the plan; absent if unlimited.
        limit: Option<u32>,
        /// The response to store with the room.
        recorder: Option<ResponseRecorder<Room>>,
        /// Answered once the room is durable.
        reply: RoomReply,
    },
    /// The write of a new room has ended.
    RoomCreated {
        /// The room, or the store's error.
        result: Box<Result<Room, StoreError>>,
        /// The reply to the client's request.
        reply: RoomReply,
    },
    /// Start a recording or a broadcast.
    StartEgress {
        /// The recording or broadcast.
        plan: Arc<EgressPlan>,
        /// The response to store with the record.
        recorder: Option<ResponseRecorder<Egress>>,
        /// Answered once the record is durable.
        reply: EgressReply,
    },
    /// The start of a recording or a broadcast has ended.
    EgressStarted {
        /// The record and its upload, or the error.
        result: Box<Result<RunningEgress, TreeError>>,
        /// The request, if it may have started an egress although it failed.
        unanswered: Option<Arc<UnansweredStart>>,
        /// The reply to the client's request.
        reply: EgressReply,
    },
    /// The media plane was asked what the starts without an answer have begun.
    UnansweredFound(Box<UnansweredFound>),
    /// Create an ingress endpoint.
    CreateIngress {
        /// The room, and the request to the media plane.
        request: Box<CreateIngressRequest>,
        /// Answered once the record is durable.
        reply: CreateIngressReply,
    },
    /// The creation of an ingress endpoint has ended.
    IngressCreated {
        /// The record and the stream key, or the error.
        result: Box<Result<CreatedIngress, TreeError>>,
        /// The reply to the client's request.
        reply: CreateIngressReply,
    },
    /// Forward a message to a room.
    Room {
        /// The name of the room.
        name: RoomName,
        /// The message to forward.
        msg: RoomMsg,
    },
    /// Forward a message to a recording or a broadcast.
    Egress {
        /// The recording or broadcast.
        id: EgressId,
        /// The message to forward.
        msg: EgressMsg,
    },
    /// Forward a message to an ingress endpoint.
    Ingress {
        /// The id of the endpoint.
        id: IngressId,
        /// The message to forward.
        msg: IngressMsg,
    },
    /// Forward a message to a webhook endpoint.
    WebhookEndpoint {
        /// The id of the endpoint.
        id: EndpointId,
        /// The message to forward.
        msg: WebhookEndpointMsg,
    },
    /// Forward the media plane's answer to an ingress actor, after the reports that its room was sent before.
    IngressObserved {
        /// The id of the endpoint.
        id: IngressId,
        /// The media plane's answer to a poll.
        observation: IngressObservation,
    },
    /// Reports of the media plane wait in the queue of a room.
    #[strum(to_string = "report")]
    Reports(RoomName),
    /// The media plane reports an event of a recording, a broadcast or an ingress endpoint.
    FollowedReport {
        /// The event that the media plane reports.
        report: Report,
        /// Answered once the event is durable, or refused.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// A webhook endpoint was deleted.
    WebhookEndpointDeleted(EndpointId),
    /// Rebuild a child: the delay after its failure is over.
    Restore(ChildKey),
    /// The records of a room without an actor were read.
    RoomLoaded {
        /// The name of the room.
        name: RoomName,
        /// The records; absent if the room has ended.
        snapshot: Box<Result<Option<RoomSnapshot>, StoreError>>,
    },
    /// The record of a recording or a broadcast without an actor was read.
    EgressLoaded {
        /// The recording or broadcast.
        id: EgressId,
        /// The record; absent if it is final.
        record: Box<Result<Option<RunningEgress>, StoreError>>,
    },
    /// The record of an ingress endpoint without an actor was read.
    IngressLoaded {
        /// The id of the endpoint.
        id: IngressId,
        /// The record; absent if it is final.
        record: Box<Result<Option<Ingress>, StoreError>>,
    },
    /// The earliest deadline of a hibernating room has come.
    HibernationDeadline,
    /// This project may end a room whose deadline has come.
    EndDueRoom(ProjectPermit),
    /// Reconcile the records with the media plane, and arm the timer for the next time.
    Reconcile,
    /// What is live on the media plane in the rooms of this project.
    Surveyed(Box<MediaInventory>),
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

impl InspectMessage for ProjectMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}
