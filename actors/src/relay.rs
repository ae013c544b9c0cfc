//! Relay of committed events from the store's writer to the actors that deliver them, and to subscribers.

use std::sync::{Arc, OnceLock};

use conclave_db::{CommitHook, CommittedEvent};
use tokio::sync::broadcast;

use crate::project::ProjectMsg;
use crate::system::ProjectRoute;
use crate::webhook_endpoint::WebhookEndpointMsg;

/// Number of events that a slow subscriber may lag behind before it skips some. Webhook endpoints are not affected: their deliveries are in
/// the database.
const SUBSCRIBER_LAG: usize = 1_024;

/// Committed event relay. Created before the store, which calls its hook, and connected to the tree once that runs.
#[derive(Clone)]
pub struct EventRelay {
    projects: Arc<OnceLock<ProjectRoute>>,
    subscribers: broadcast::Sender<CommittedEvent>,
}

impl Default for EventRelay {
    fn default() -> Self {
        Self {
            projects: Arc::default(),
            subscribers: broadcast::Sender::new(SUBSCRIBER_LAG),
        }
    }
}

impl EventRelay {
    /// Returns the function that the store calls after each commit. It runs on a writer thread, and must not block.
    pub fn hook(&self) -> CommitHook {
        let relay = self.clone();
        Box::new(move |events| relay.publish(events))
    }

    /// Returns a stream of all events committed from now on.
    pub fn watch(&self) -> broadcast::Receiver<CommittedEvent> {
        self.subscribers.subscribe()
    }

    /// Connects the tree. Deliveries committed before are found in the database.
    pub(crate) fn connect(&self, projects: ProjectRoute) {
        // A relay belongs to one tree; a second one is ignored.
        let _ = self.projects.set(projects);
    }

    fn publish(&self, events: &[CommittedEvent]) {
        // Cloned only for subscribers, which most servers do not have.
        if self.subscribers.receiver_count() > 0 {
            for event in events {
                let _ = self.subscribers.send(event.clone());
            }
        }
        // Before the tree has started.
        let Some(projects) = self.projects.get() else {
            return;
        };
        for event in events {
            for id in &event.endpoints {
                let queued = ProjectMsg::WebhookEndpoint {
                    id: *id,
                    msg: WebhookEndpointMsg::Queued,
                };
                // A stopping tree leaves the deliveries to the next start.
                let _ = projects.cast(event.project_id.clone(), queued);
            }
        }
    }
}
