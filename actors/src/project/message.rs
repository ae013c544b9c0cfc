//! Messages to a project actor.

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

/// Reply to creating a room.
pub type RoomReply = RpcReplyPort<Result<Room, TreeError>>;
/// Reply to creating an ingress endpoint.
pub type CreateIngressReply = RpcReplyPort<Result<CreatedIngress, TreeError>>;

/// Request to create an ingress endpoint.
#[derive(Debug)]
pub struct CreateIngressRequest {
    /// Id of the room that the encoder publishes into.
    pub room: RoomId,
    /// Request to the media plane.
    pub ingress: IngressRequest,
}

/// Failed start whose egress may run nevertheless.
#[derive(Debug)]
pub struct UnansweredStart {
    /// Egress plan.
    pub plan: Arc<EgressPlan>,
    /// Request time.
    pub at: Timestamp,
}

/// Egresses found for starts without a reply.
#[derive(Debug)]
pub struct UnansweredFound {
    /// Time at which the media plane was queried.
    pub(super) asked_at: Timestamp,
    /// Running egresses, with their rooms.
    pub(super) found: Result<Vec<(NamespacedRoom, EgressId)>, MediaError>,
}

/// Child key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ChildKey {
    /// Room, by its name in the project.
    Room(RoomName),
    /// Recording or broadcast.
    Egress(EgressId),
    /// Ingress endpoint.
    Ingress(IngressId),
    /// Webhook endpoint.
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

/// Message to a project actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ProjectMsg {
    /// Start the actors of all live records. The first message of a project actor.
    Populate,
    /// Create a room.
    CreateRoom {
        /// The new room's name and settings.
        new: Box<NewRoom>,
        /// The plan's maximum open rooms; absent if unlimited.
        limit: Option<u32>,
        /// Response to store with the room.
        recorder: Option<ResponseRecorder<Room>>,
        /// Replied to once the room is durable.
        reply: RoomReply,
    },
    /// The write of a new room is over.
    RoomCreated {
        /// The room, or the store's error.
        result: Box<Result<Room, StoreError>>,
        /// Reply to the client's request.
        reply: RoomReply,
    },
    /// Start a recording or a broadcast.
    StartEgress {
        /// Plan of the recording or broadcast.
        plan: Arc<EgressPlan>,
        /// Response to store with the record.
        recorder: Option<ResponseRecorder<Egress>>,
        /// Replied to once the record is durable.
        reply: EgressReply,
    },
    /// The start of a recording or a broadcast is over.
    EgressStarted {
        /// The record and its upload, or the error.
        result: Box<Result<RunningEgress, TreeError>>,
        /// The request, if an egress may run although the start failed.
        unanswered: Option<Arc<UnansweredStart>>,
        /// Reply to the client's request.
        reply: EgressReply,
    },
    /// The media plane was searched for egresses of starts without a reply.
    UnansweredFound(Box<UnansweredFound>),
    /// Create an ingress endpoint.
    CreateIngress {
        /// The room, and the request to the media plane.
        request: Box<CreateIngressRequest>,
        /// Replied to once the record is durable.
        reply: CreateIngressReply,
    },
    /// The creation of an ingress endpoint is over.
    IngressCreated {
        /// The record and the stream key, or the error.
        result: Box<Result<CreatedIngress, TreeError>>,
        /// Reply to the client's request.
        reply: CreateIngressReply,
    },
    /// Forward a message to a room.
    Room {
        /// Room name.
        name: RoomName,
        /// Message to forward.
        msg: RoomMsg,
    },
    /// Forward a message to a recording or a broadcast.
    Egress {
        /// The recording or broadcast.
        id: EgressId,
        /// Message to forward.
        msg: EgressMsg,
    },
    /// Forward a message to an ingress endpoint.
    Ingress {
        /// Endpoint id.
        id: IngressId,
        /// Message to forward.
        msg: IngressMsg,
    },
    /// Forward a message to a webhook endpoint.
    WebhookEndpoint {
        /// Endpoint id.
        id: EndpointId,
        /// Message to forward.
        msg: WebhookEndpointMsg,
    },
    /// Forward the media plane's reply to an ingress actor, after the room's earlier reports.
    IngressObserved {
        /// Endpoint id.
        id: IngressId,
        /// The media plane's reply to a poll.
        observation: IngressObservation,
    },
    /// Reports of the media plane are queued for a room.
    #[strum(to_string = "report")]
    Reports(RoomName),
    /// The media plane reports an event of a recording, a broadcast or an ingress endpoint.
    FollowedReport {
        /// Reported event.
        report: Report,
        /// Replied to once the event is durable, or refused.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// A webhook endpoint was deleted.
    WebhookEndpointDeleted(EndpointId),
    /// Rebuild a child, since the delay after its failure is over.
    Restore(ChildKey),
    /// The records of a room without an actor were loaded.
    RoomLoaded {
        /// Room name.
        name: RoomName,
        /// Records; absent if the room has ended.
        snapshot: Box<Result<Option<RoomSnapshot>, StoreError>>,
    },
    /// The record of a recording or a broadcast without an actor was loaded.
    EgressLoaded {
        /// The recording or broadcast.
        id: EgressId,
        /// Record; absent if it is final.
        record: Box<Result<Option<RunningEgress>, StoreError>>,
    },
    /// The record of an ingress endpoint without an actor was loaded.
    IngressLoaded {
        /// Endpoint id.
        id: IngressId,
        /// Record; absent if it is final.
        record: Box<Result<Option<Ingress>, StoreError>>,
    },
    /// The earliest deadline of a hibernating room has passed.
    HibernationDeadline,
    /// This project may end a room whose deadline has passed.
    EndDueRoom(ProjectPermit),
    /// Reconcile the records with the media plane, and arm the timer for the next time.
    Reconcile,
    /// Inventory of the media plane in this project's rooms.
    Surveyed(Box<MediaInventory>),
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

impl InspectMessage for ProjectMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}
