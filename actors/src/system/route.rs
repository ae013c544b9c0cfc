//! Route of a message from outside the tree to a project: into its mailbox, or through the root, which starts a project that is not
//! running.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::ProjectId;
use parking_lot::RwLock;
use ractor::RpcReplyPort;

use super::SystemMsg;
use crate::mailbox::{Mailbox, NoReply};
use crate::project::ProjectMsg;

/// Running projects' mailboxes. Cheap to clone; all clones share one map.
#[derive(Clone, Default)]
pub struct ProjectMailboxes(Arc<RwLock<HashMap<ProjectId, Mailbox<ProjectMsg>>>>);

impl ProjectMailboxes {
    /// Adds or replaces a started project's mailbox.
    pub(super) fn insert(&self, id: ProjectId, mailbox: Mailbox<ProjectMsg>) {
        self.0.write().insert(id, mailbox);
    }

    /// Removes a failed project's mailbox.
    pub(super) fn remove(&self, id: &ProjectId) {
        self.0.write().remove(id);
    }

    fn get(&self, id: &ProjectId) -> Option<Mailbox<ProjectMsg>> {
        self.0.read().get(id).cloned()
    }
}

/// Route to the projects. Cheap to clone.
#[derive(Clone)]
pub struct ProjectRoute {
    root: Mailbox<SystemMsg>,
    running: ProjectMailboxes,
}

impl ProjectRoute {
    /// Creates the route into these mailboxes, or through this root.
    pub(crate) fn new(root: Mailbox<SystemMsg>, running: ProjectMailboxes) -> Self {
        Self { root, running }
    }

    /// Returns the root's mailbox.
    pub(crate) fn root(&self) -> &Mailbox<SystemMsg> {
        &self.root
    }

    /// Sends a message without waiting for it to be handled. Returns false if the tree has stopped.
    pub(crate) fn cast(&self, project: ProjectId, message: ProjectMsg) -> bool {
        // Cloned out of the lock, which is never held while a message is sent.
        let message = match self.running.get(&project) {
            Some(running) => match running.cast(message) {
                Ok(()) => return true,
                // The project has just stopped. The root buffers the message until the project is rebuilt.
                Err(Some(message)) => message,
                Err(None) => return false,
            },
            None => message,
        };
        self.cast_through_root(project, message)
    }

    /// Sends a message behind all messages that the root buffers for the project. Returns false if the tree has stopped.
    pub(crate) fn cast_through_root(&self, id: ProjectId, message: ProjectMsg) -> bool {
        let msg = Box::new(message);
        self.root.cast(SystemMsg::Project { id, msg }).is_ok()
    }

    /// Sends a message, and waits for its reply.
    ///
    /// # Errors
    /// If the project or the tree has stopped, or takes longer than `timeout`.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        id: ProjectId,
        timeout: Duration,
        message: impl FnOnce(RpcReplyPort<T>) -> ProjectMsg,
    ) -> Result<T, NoReply> {
        // Directly, so that the root is no bottleneck for the requests of all projects.
        match self.running.get(&id) {
            Some(running) => running.call(message, timeout).await,
            None => {
                let wrap = |reply| SystemMsg::Project {
                    id,
                    msg: Box::new(message(reply)),
                };
                self.root.call(wrap, timeout).await
            }
        }
    }
}
