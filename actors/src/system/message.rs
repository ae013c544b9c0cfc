//! The messages of the system actor.

use conclave_db::StoreError;
use conclave_media::{MediaError, Report, ReportError, Survey};
use conclave_model::{EndpointId, ProjectId};
use ractor::RpcReplyPort;
use tokio::sync::oneshot;

use crate::inspection::{InspectMessage, Inspection};
use crate::project::ProjectMsg;

/// A message to the system actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum SystemMsg {
    /// Start the projects that have something live. The first message.
    Populate,
    /// Forward a message to a project, which is started if it does not run.
    Project {
        /// The project whose actor receives the message.
        id: ProjectId,
        /// The message to forward.
        msg: Box<ProjectMsg>,
    },
    /// The media plane reports an event of a recording, a broadcast or an ingress endpoint.
    FollowedReport {
        /// The event that the media plane reports.
        report: Report,
        /// Answered once the event is durable, or refused.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// Deliveries were queued for webhook endpoints.
    DeliveriesQueued {
        /// The project of the endpoints.
        project: ProjectId,
        /// The endpoints with new deliveries.
        endpoints: Vec<EndpointId>,
    },
    /// The media plane answers again after an outage.
    MediaReturned,
    /// Rebuild a project: the delay after its failure is over.
    Restore(ProjectId),
    /// The record of a project without an actor was read.
    ProjectLoaded {
        /// The id of the project.
        id: ProjectId,
        /// Whether the project exists.
        exists: Result<bool, StoreError>,
    },
    /// Delete expired records.
    RunHousekeeping,
    /// Ask the media plane what is live, and arm the timer for the next time.
    Survey,
    /// What is live on the media plane.
    Surveyed(Box<Result<Survey, MediaError>>),
    /// Record that the server runs.
    WriteHeartbeat,
    /// The heartbeat was written, or could not be.
    HeartbeatWritten,
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

impl InspectMessage for SystemMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}
