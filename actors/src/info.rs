//! An actor's identity and counters, readable without sending it a message.
//!
//! An [`ActorInfo`] outlives the actor's process: a child that fails and is rebuilt keeps it, with its number of restarts and its last
//! failure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use conclave_model::{ProjectId, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;

/// Name of the message that requests a snapshot. It is counted, but not kept in the history.
const INSPECT: &str = "inspect";
/// Recent messages kept per actor.
const HISTORY: usize = 16;

/// The type of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// Supervision tree root.
    System,
    /// Supervisor of one project's actors.
    Project,
    /// Actor for an open room.
    Room,
    /// Actor for a recording or broadcast that is not final.
    Egress,
    /// Actor for an ingress endpoint that is not final.
    Ingress,
    /// Actor that delivers to one webhook endpoint.
    WebhookEndpoint,
}

impl ActorKind {
    /// All kinds, the root first.
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
    /// Actor type.
    pub kind: ActorKind,
    /// Supervisor's path; absent for the root.
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

/// Actor failure.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// Time at which the supervisor noticed it.
    pub at: Timestamp,
    /// Message of the error or the panic.
    pub reason: String,
}

/// Handled message.
#[derive(Debug, Clone, Serialize)]
pub struct HandledMessage {
    /// Time at which its handling started.
    pub at: Timestamp,
    /// Name of the message in snake case.
    pub message: &'static str,
}

impl ActorInfo {
    /// Creates the info of an actor that has not been started.
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
        // Relaxed throughout: the counters are for display, and order nothing.
        self.restarts.fetch_add(1, Ordering::Relaxed);
        // The failed actor's mailbox is lost, so its messages no longer count as queued.
        self.handled
            .store(self.sent.load(Ordering::Relaxed), Ordering::Relaxed);
        self.diagnostics.lock().last_failure = Some(Failure { at, reason });
    }

    /// Records that a message was put into the mailbox.
    pub(crate) fn record_sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the start of a message's handling, by the message's name.
    pub fn record_message(&self, at: Timestamp, message: impl Into<&'static str>) {
        let message = message.into();
        self.handled.fetch_add(1, Ordering::Relaxed);
        log::trace!(actor = &*self.id; "handles {message}");
        // Requests of the debug endpoint would otherwise displace the messages of interest.
        if message != INSPECT {
            let mut diagnostics = self.diagnostics.lock();
            // A ring: an actor that lives for months must not collect messages.
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

    /// Marks the point at which tests make an actor fail. Its scope is the project, or `system` for the root.
    #[cfg(feature = "faults")]
    fn reach_fault(&self, message: &str) {
        let scope = self.project_id.as_ref().map_or("system", ProjectId::as_str);
        let _ = conclave_model::faults::at(scope, &format!("{}.{message}", self.kind.as_str()));
    }

    /// Returns the last start time.
    pub fn started_at(&self) -> Timestamp {
        Timestamp::from_millis(self.started_at.load(Ordering::Relaxed))
    }

    /// Returns how often the actor failed and was rebuilt.
    pub fn restarts(&self) -> u32 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Returns the handled message count.
    pub fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// Returns the mailbox's message count.
    pub fn mailbox(&self) -> u64 {
        // Two counters that are read apart: a message may be handled in between, hence saturating.
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
