//! Events that are on disk, and the hook that receives them.

use std::sync::Arc;

use conclave_model::{EndpointId, ProjectId};

/// Receives events once they are on disk, those of a project in the order of their commit. Runs on a thread of the writer, so it must be
/// quick.
pub type CommitHook = Box<dyn Fn(&[CommittedEvent]) + Send + Sync>;

/// An event that is on disk.
#[derive(Debug, Clone)]
pub struct CommittedEvent {
    /// Larger than the id of every event of the project that was committed before.
    pub id: i64,
    /// The project that the event belongs to.
    pub project_id: ProjectId,
    /// The event's name, for example `room.started`.
    pub event_type: &'static str,
    /// The exact JSON body that webhook endpoints receive.
    pub payload: Arc<str>,
    /// The active webhook endpoints of the project; a delivery is queued for each.
    pub endpoints: Vec<EndpointId>,
}
