//! The way of a committed event from the store's writer to the actors that deliver it, and to subscribers.

use std::sync::{Arc, OnceLock};

use conclave_db::{CommitHook, CommittedEvent};
use tokio::sync::broadcast;

use crate::mailbox::Mailbox;
use crate::system::SystemMsg;

/// Number of events that a slow subscriber may lag behind before it skips some. Webhook endpoints do not depend on it: their
/// deliveries are in the database.
const SUBSCRIBER_LAG: usize = 1_024;

/// Passes committed events on. Created before the store, which calls its hook, and connected to the tree once that runs.
#[derive(Clone)]
pub struct EventRelay {
    system: Arc<OnceLock<Mailbox<SystemMsg>>>,
    subscribers: broadcast::Sender<CommittedEvent>,
}

impl Default for EventRelay {
    fn default() -> Self {
        Self {
            system: Arc::default(),
            subscribers: broadcast::Sender::new(SUBSCRIBER_LAG),
        }
    }
}

impl EventRelay {
    /// Returns the function that the store calls after each commit.
    pub fn hook(&self) -> CommitHook {
        let relay = self.clone();
        Box::new(move |events| relay.publish(events))
    }

    /// Returns a stream of every event that is committed from now on.
    pub fn watch(&self) -> broadcast::Receiver<CommittedEvent> {
        self.subscribers.subscribe()
    }

    /// Connects the tree. Deliveries that were committed before are found in the database.
    pub(crate) fn connect(&self, system: Mailbox<SystemMsg>) {
        // A relay belongs to one tree; a second one is ignored.
        let _ = self.system.set(system);
    }

    fn publish(&self, events: &[CommittedEvent]) {
        if self.subscribers.receiver_count() > 0 {
            for event in events {
                let _ = self.subscribers.send(event.clone());
            }
        }
        let Some(system) = self.system.get() else {
            return;
        };
        for event in events.iter().filter(|event| !event.endpoints.is_empty()) {
            let (project, endpoints) = (event.project_id.clone(), event.endpoints.clone());
            // A tree that is stopping leaves the deliveries to the next start.
            let _ = system.cast(SystemMsg::DeliveriesQueued { project, endpoints });
        }
    }
}
