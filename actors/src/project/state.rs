//! The state of a project actor: its children, what is being created, and its timers.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use conclave_model::{EgressId, EndpointId, IngressId, ProjectId, RoomName, Timestamp};
use ractor::ActorId;
use serde_json::json;

use super::followed::FollowedSet;
use super::message::{ChildKey, UnansweredStart};
use crate::children::{ChildSet, Supervised};
use crate::egress::EgressMsg;
use crate::info::{ActorInfo, ActorKind};
use crate::ingress::IngressMsg;
use crate::mailbox::Timer;
use crate::registry::{InspectMessage, Inspection};
use crate::room::RoomMsg;
use crate::webhook_endpoint::WebhookEndpointMsg;

/// A project's children, and what is counted before it becomes one.
pub struct ProjectState {
    pub(super) rooms: ChildSet<RoomName, RoomMsg>,
    pub(super) egresses: FollowedSet<EgressId, EgressMsg>,
    pub(super) ingresses: FollowedSet<IngressId, IngressMsg>,
    pub(super) webhook_endpoints: ChildSet<EndpointId, WebhookEndpointMsg>,
    pub(super) by_actor: HashMap<ActorId, ChildKey>,
    /// Whether a damaged file keeps rooms from being loaded, so that one that is no child may be open.
    pub(super) lacks_rooms: bool,
    /// Number of rooms that are being written. They count against the plan's limit before they exist.
    pub(super) pending_rooms: usize,
    /// Starts of recordings and broadcasts whose answer was lost.
    pub(super) unanswered: Vec<Arc<UnansweredStart>>,
    /// Hibernating rooms by their deadline.
    pub(super) hibernating: BTreeSet<(Timestamp, RoomName)>,
    pub(super) deadline: Option<Timer>,
    /// Whether a permit to end a due room was asked for. Until it comes, no timer is needed.
    pub(super) awaits_permit: bool,
    pub(super) reconcile: Option<Timer>,
}

impl ProjectState {
    /// Returns the state of a project without children, whose path is `parent`.
    pub(super) fn new(project: &ProjectId, parent: &Arc<str>) -> Self {
        Self {
            rooms: children(ActorKind::Room, "room", project, parent),
            egresses: FollowedSet::new(children(ActorKind::Egress, "egress", project, parent)),
            ingresses: FollowedSet::new(children(ActorKind::Ingress, "ingress", project, parent)),
            webhook_endpoints: children(ActorKind::WebhookEndpoint, "webhook", project, parent),
            by_actor: HashMap::new(),
            lacks_rooms: false,
            pending_rooms: 0,
            unanswered: Vec::new(),
            hibernating: BTreeSet::new(),
            deadline: None,
            awaits_permit: false,
            reconcile: None,
        }
    }

    /// Returns the child with this name; a new one that failed to start if there is none.
    pub(super) fn child(&mut self, key: &ChildKey) -> &mut dyn Supervised {
        match key {
            ChildKey::Room(name) => self.rooms.supervised(name),
            ChildKey::Egress(id) => self.egresses.children.supervised(id),
            ChildKey::Ingress(id) => self.ingresses.children.supervised(id),
            ChildKey::WebhookEndpoint(id) => self.webhook_endpoints.supervised(id),
        }
    }

    /// Returns the snapshot for the debug endpoint.
    pub(super) fn inspect(&self) -> Inspection {
        let state = json!({
            "open_rooms": self.rooms.len(),
            "rooms_hibernating": self.hibernating.len(),
            "rooms_pending": self.pending_rooms,
            "egresses": self.egresses.children.len(),
            "egresses_pending": self.egresses.pending.len(),
            "ingresses": self.ingresses.children.len(),
            "ingresses_pending": self.ingresses.pending.len(),
            "webhook_endpoints": self.webhook_endpoints.len(),
        });
        Inspection {
            timers: self
                .deadline
                .iter()
                .chain(&self.reconcile)
                .map(Timer::view)
                .collect(),
            state,
        }
    }
}

/// Returns an empty set of children with paths `{project}/{folder}/{name}`.
fn children<K: Clone + Eq + Hash + Display, M: InspectMessage>(
    kind: ActorKind,
    folder: &'static str,
    project: &ProjectId,
    parent: &Arc<str>,
) -> ChildSet<K, M> {
    let (project, parent) = (project.clone(), Arc::clone(parent));
    ChildSet::new(move |name| {
        let id = format!("{project}/{folder}/{name}");
        ActorInfo::new(id, kind, Some(Arc::clone(&parent)), Some(project.clone()))
    })
}
