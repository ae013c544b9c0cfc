//! The mailboxes of running projects, so that a request need not pass through the root.

use std::collections::HashMap;
use std::sync::Arc;

use conclave_model::ProjectId;
use parking_lot::RwLock;

use crate::mailbox::Mailbox;
use crate::project::ProjectMsg;

/// The mailboxes of running projects. Cheap to clone; all clones share one map.
#[derive(Clone, Default)]
pub struct ProjectMailboxes(Arc<RwLock<HashMap<ProjectId, Mailbox<ProjectMsg>>>>);

impl ProjectMailboxes {
    /// Adds or replaces the mailbox of a project that was started.
    pub(crate) fn insert(&self, id: ProjectId, mailbox: Mailbox<ProjectMsg>) {
        self.0.write().insert(id, mailbox);
    }

    /// Removes the mailbox of a project that failed.
    pub(crate) fn remove(&self, id: &ProjectId) {
        self.0.write().remove(id);
    }

    /// Returns the mailbox of a project that runs.
    pub(crate) fn get(&self, id: &ProjectId) -> Option<Mailbox<ProjectMsg>> {
        self.0.read().get(id).cloned()
    }
}
