//! The way of a committed event: from the store's writer to the actors that deliver it, and to whoever watches.

use std::sync::Arc;
use std::sync::OnceLock;

use conclave_db::{CommitHook, CommittedEvent};
use tokio::sync::broadcast;

use crate::mailbox::Mailbox;
use crate::system::SystemMsg;

/// Events a slow watcher may lag behind before it skips some. Watchers are for looking on; receivers have the table.
const WATCHERS_LAG: usize = 1_024;

/// Made before the store, which is handed its hook, and connected to the system once that runs.
#[derive(Clone)]
pub struct EventRelay {
    system: Arc<OnceLock<Mailbox<SystemMsg>>>,
    watchers: broadcast::Sender<CommittedEvent>,
}

impl Default for EventRelay {
    fn default() -> Self {
        Self { system: Arc::default(), watchers: broadcast::Sender::new(WATCHERS_LAG) }
    }
}

impl EventRelay {
    /// What the store calls after each commit.
    #[must_use]
    pub fn hook(&self) -> CommitHook {
        let relay = self.clone();
        Box::new(move |events| relay.tell(events))
    }

    /// Every event from now on, as it is committed.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<CommittedEvent> {
        self.watchers.subscribe()
    }

    /// From now on the system hears of events. What was committed before it learns from the table.
    pub(crate) fn connect(&self, system: Mailbox<SystemMsg>) {
        // A relay belongs to one system; a second one is ignored.
        let _ = self.system.set(system);
    }

    fn tell(&self, events: &[CommittedEvent]) {
        if self.watchers.receiver_count() > 0 {
            for event in events {
                let _ = self.watchers.send(event.clone());
            }
        }
        let Some(system) = self.system.get() else { return };
        for event in events.iter().filter(|event| !event.endpoints.is_empty()) {
            let queued = SystemMsg::Queued { project: event.project_id.clone(), endpoints: event.endpoints.clone() };
            // A system that is stopping leaves the rest to the next start.
            let _ = system.cast(queued);
        }
    }
}
