//! How many downloads of recordings run at once.

use std::sync::Arc;

use conclave_model::permits::{PermitLimits, ProjectPermits};

use super::admission::Admission;

/// Downloads at once, by API key and by link. Each has a connection, and a thread of the blocking pool while it reads.
pub const DOWNLOADS: PermitLimits = PermitLimits {
    total: 256,
    of_project: 64,
};

/// What downloads have for themselves. Anyone may have a link, so those by link take nothing from the project's own.
pub struct Downloads {
    /// Those with an API key.
    pub by_key: ProjectPermits,
    /// Those by link.
    pub by_link: ProjectPermits,
    /// Admits the requests by link, which do not count as requests of the project.
    pub link_requests: Arc<Admission>,
}

impl Downloads {
    /// None runs. The requests by link are admitted by `link_requests`.
    pub fn new(link_requests: Arc<Admission>) -> Self {
        Self {
            by_key: ProjectPermits::new(DOWNLOADS),
            by_link: ProjectPermits::new(DOWNLOADS),
            link_requests,
        }
    }
}
