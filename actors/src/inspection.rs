//! Snapshots of actors for the debug endpoint, requested without knowing which actor it is.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::{Message, RpcReplyPort};
use serde::Serialize;

use crate::mailbox::Mailbox;
use crate::timer::TimerView;

/// An actor's snapshot.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// The armed timers, each with the instant at which it fires.
    pub timers: Vec<TimerView>,
    /// The actor's state as JSON, written field by field; never a secret.
    pub state: serde_json::Value,
}

/// A message type that includes a request for a snapshot. Every actor's messages implement it.
pub trait InspectMessage: Message {
    /// Returns the message that requests a snapshot.
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self;
}

/// A source of snapshots: an actor's mailbox, or a substitute for one that has no process.
pub trait Inspect: Send + Sync {
    /// Returns a snapshot, or `None` if there is none within `timeout`.
    fn inspect(&self, timeout: Duration) -> BoxFuture<'_, Option<Inspection>>;
}

impl<M: InspectMessage> Inspect for Mailbox<M> {
    fn inspect(&self, timeout: Duration) -> BoxFuture<'_, Option<Inspection>> {
        self.call(M::inspect, timeout).map(Result::ok).boxed()
    }
}
