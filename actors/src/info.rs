//! An actor's identity and counters, readable without sending it a message.
//!
//! An [`ActorInfo`] outlives the actor's process: a child that fails and is rebuilt keeps it, with the number of its
//! restarts and its last failure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use conclave_model::{ProjectId, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;

/// The name of the message that asks for a snapshot. It is counted, and not kept.
const INSPECT: &str = "inspect";
/// Number of recent messages kept for each actor.
const HISTORY: usize = 16;

/// The type of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// The root of the supervision tree.
    System,
    /// The supervisor of one project's actors.
    Project,
    /// The actor of an open room.
    Room,
    /// The actor of a recording or a broadcast that is not final.
    Egress,
    /// The actor of an ingress endpoint that is not final.
    Ingress,
    /// The actor that delivers to one webhook endpoint.
    WebhookEndpoint,
}

impl ActorKind {
    /// Every kind, the root first.
    pub const ALL: [Self; 6] = [
        Self::System,
        Self::Project,
        Self::Room,
        Self::Egress,
        Self::Ingress,
        Self::WebhookEndpoint,
    ];

    /// Returns the kind's name in the debug endpoint and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Project => "project",
            Self::Room => "room",
            Self::Egress => "egress",
            Self::Ingress => "ingress",
            Self::WebhookEndpoint => "webhook_endpoint",
        }
    }
}

/// An actor's identity and counters.
#[derive(Debug)]
pub struct ActorInfo {
    /// The actor's path, as in `prj_0123456789ab/room/standup`. The registry shares it.
    pub id: Arc<str>,
    /// The type of the actor.
    pub kind: ActorKind,
    /// The supervisor's path; absent for the root.
    pub parent: Option<Arc<str>>,
    /// The project that the actor belongs to; absent for the root.
    pub project_id: Option<ProjectId>,
    started_at: AtomicI64,
    restarts: AtomicU32,
    sent: AtomicU64,
    handled: AtomicU64,
    diagnostics: Mutex<Diagnostics>,
}

#[derive(Debug, Default)]
struct Diagnostics {
    last_failure: Option<Failure>,
    history: VecDeque<HandledMessage>,
}

/// The failure of an actor.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// The instant at which the supervisor noticed it.
    pub at: Timestamp,
    /// The error or the panic's message.
    pub reason: String,
}

/// A message that an actor handled.
#[derive(Debug, Clone, Serialize)]
pub struct HandledMessage {
    /// The instant at which its handling began.
    pub at: Timestamp,
    /// The message's name in snake case.
    pub message: &'static str,
}

impl ActorInfo {
    /// Returns the info of an actor that has not been started.
    pub fn new(
        id: String,
        kind: ActorKind,
        parent: Option<Arc<str>>,
        project_id: Option<ProjectId>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            kind,
            parent,
            project_id,
            started_at: AtomicI64::new(0),
            restarts: AtomicU32::new(0),
            sent: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            diagnostics: Mutex::default(),
        })
    }

    /// Returns the last segment of the path.
    pub fn name(&self) -> &str {
        self.id.rsplit('/').next().unwrap_or(&self.id)
    }

    /// Records that the actor's process started.
    pub fn record_start(&self, at: Timestamp) {
        self.started_at.store(at.millis(), Ordering::Relaxed);
    }

    /// Records a failure, which a restart follows.
    pub fn record_failure(&self, at: Timestamp, reason: String) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        // The messages in a failed actor's mailbox are lost.
        self.handled
            .store(self.sent.load(Ordering::Relaxed), Ordering::Relaxed);
        self.diagnostics.lock().last_failure = Some(Failure { at, reason });
    }

    /// Records that a message was put into the mailbox.
    pub(crate) fn record_sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the actor begins to handle a message, which is recorded by its name.
    pub fn record_message(&self, at: Timestamp, message: impl Into<&'static str>) {
        let message = message.into();
        self.handled.fetch_add(1, Ordering::Relaxed);
        log::trace!(actor = &*self.id; "handles {message}");
        // Those who watch an actor would displace what they watch.
        if message != INSPECT {
            let mut diagnostics = self.diagnostics.lock();
            if diagnostics.history.len() == HISTORY {
                diagnostics.history.pop_front();
            }
            diagnostics
                .history
                .push_back(HandledMessage { at, message });
        }
        #[cfg(feature = "faults")]
        self.reach_fault(message);
    }

    /// The point at which tests let an actor fail. Its scope is the project; `system` for the root.
    #[cfg(feature = "faults")]
    fn reach_fault(&self, message: &str) {
        let scope = self.project_id.as_ref().map_or("system", ProjectId::as_str);
        let _ = conclave_model::faults::at(scope, &format!("{}.{message}", self.kind.as_str()));
    }

    /// Returns the instant of the last start.
    pub fn started_at(&self) -> Timestamp {
        Timestamp::from_millis(self.started_at.load(Ordering::Relaxed))
    }

    /// Returns how often the actor failed and was rebuilt.
    pub fn restarts(&self) -> u32 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Returns the number of messages handled.
    pub fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// Returns the number of messages that wait in the mailbox.
    pub fn mailbox(&self) -> u64 {
        self.sent
            .load(Ordering::Relaxed)
            .saturating_sub(self.handled())
    }

    /// Returns the last failure, if there was one.
    pub fn last_failure(&self) -> Option<Failure> {
        self.diagnostics.lock().last_failure.clone()
    }

    /// Returns the most recent messages, oldest first.
    pub fn history(&self) -> Vec<HandledMessage> {
        self.diagnostics.lock().history.iter().cloned().collect()
    }
}
