//! Registry of all actors and their snapshots, for the debug endpoint and the metrics only; actors find each other through the tree. A
//! snapshot is requested without knowing the actor's kind.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use ractor::{Message, RpcReplyPort};
use serde::Serialize;

use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, TimerView};

/// Whether a registered actor has a process.
#[derive(Clone)]
pub enum ActorStatus {
    /// The actor runs, and returns snapshots.
    Running(Arc<dyn Inspect>),
    /// The actor has no process until a message or its deadline arrives. Its snapshot is made without a process.
    Hibernating(Arc<dyn Inspect>),
    /// The actor failed, and is waiting to be rebuilt from the database.
    Restarting,
}

/// Registered actor.
#[derive(Clone)]
pub struct RegistryEntry {
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// Whether it has a process.
    pub status: ActorStatus,
}

/// Registered actors by path, so that a project's actors are adjacent.
#[derive(Default)]
pub struct ActorRegistry(Mutex<BTreeMap<Arc<str>, RegistryEntry>>);

impl ActorRegistry {
    /// Adds an actor, or replaces its status.
    pub fn register(&self, info: &Arc<ActorInfo>, status: ActorStatus) {
        let entry = RegistryEntry {
            info: Arc::clone(info),
            status,
        };
        self.0.lock().insert(Arc::clone(&info.id), entry);
    }

    /// Removes an actor that has stopped for good.
    pub fn deregister(&self, info: &ActorInfo) {
        self.0.lock().remove(&*info.id);
    }

    /// Removes the children of a failed actor: they ended with it, and it registers the ones that it rebuilds.
    pub fn deregister_children(&self, parent: &ActorInfo) {
        // Paths start with the parent's, and the map is ordered, so no other entry is visited.
        let (mut entries, folder) = (self.0.lock(), format!("{}/", parent.id));
        let children = entries.range::<str, _>((Bound::Included(&*folder), Bound::Unbounded));
        let paths = children
            .map(|(path, _)| Arc::clone(path))
            .take_while(|path| path.starts_with(&folder));
        for path in paths.collect::<Vec<_>>() {
            entries.remove(&path);
        }
    }

    /// Returns the actor with this path.
    pub fn find(&self, id: &str) -> Option<RegistryEntry> {
        self.0.lock().get(id).cloned()
    }

    /// Calls `visit` for every actor, ordered by path, under the registry's lock.
    pub fn for_each(&self, mut visit: impl FnMut(&RegistryEntry)) {
        self.0.lock().values().for_each(&mut visit);
    }
}

/// Actor snapshot.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// Armed timers, with the times at which they fire.
    pub timers: Vec<TimerView>,
    /// The actor's state as JSON, written field by field, and never a secret.
    pub state: serde_json::Value,
}

/// Message type with a request for a snapshot. Every actor's messages implement it.
pub trait InspectMessage: Message {
    /// Returns the message that requests a snapshot.
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self;
}

/// Source of snapshots: an actor's mailbox, or a substitute for an actor without a process.
pub trait Inspect: Send + Sync {
    /// Returns a snapshot, or `None` if there is none within `timeout`.
    fn inspect(&self, timeout: Duration) -> BoxFuture<'_, Option<Inspection>>;
}

impl<M: InspectMessage> Inspect for Mailbox<M> {
    fn inspect(&self, timeout: Duration) -> BoxFuture<'_, Option<Inspection>> {
        // A busy actor and a stopped one look alike here.
        self.call(M::inspect, timeout).map(Result::ok).boxed()
    }
}
