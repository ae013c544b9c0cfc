//! The debug endpoint's view of the actors.
//!
//! The list comes from the registry and sends no messages. Only actors on the requested page get a message that requests a snapshot; an
//! actor that does not reply in time is shown without its state. A single room includes the media plane's data about its participants, with
//! the same time limit.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_model::page::{Page, PageRequest};
use conclave_model::{NamespacedRoom, ProjectId, Timestamp};
use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::timeout;

use crate::info::{ActorKind, Failure, HandledMessage};
use crate::mailbox::TimerView;
use crate::registry::{ActorStatus, RegistryEntry};
use crate::tree::Tree;

/// Time limit for an actor's snapshot.
const INSPECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Actor filter. An absent field matches all.
#[derive(Debug, Clone, Default)]
pub struct ActorFilter {
    /// Only actors of this kind.
    pub kind: Option<ActorKind>,
    /// Only actors of this project.
    pub project: Option<ProjectId>,
    /// Only actors whose path contains this text.
    pub q: Option<String>,
    /// Only actors that have failed since they were created.
    pub failed: bool,
}

/// Actor in the debug endpoint.
#[derive(Debug, Clone, Serialize)]
pub struct ActorView {
    /// The actor's path.
    pub id: String,
    /// Actor type.
    pub kind: ActorKind,
    /// The supervisor's path; absent for the root.
    pub parent: Option<String>,
    /// The project; absent for the root.
    pub project_id: Option<ProjectId>,
    /// The last segment of the path.
    pub name: String,
    /// `running`, `hibernating`, `restarting`, or `busy` if it did not reply in time.
    pub status: &'static str,
    /// Last start time.
    pub started_at: Timestamp,
    /// Number of times it failed and was rebuilt.
    pub restarts: u32,
    /// Last failure; absent if it never failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
    /// Messages in its mailbox.
    pub mailbox: u64,
    /// Handled messages.
    pub handled: u64,
    /// Armed timers, with the times at which they fire.
    pub timers: Vec<TimerView>,
    /// The actor's snapshot; null if it did not reply.
    pub state: serde_json::Value,
    /// Most recent messages, oldest first; only if a single actor is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<HandledMessage>>,
    /// Transports and tracks of a room's participants on the media plane; only if a single actor is requested. Absent if the media plane
    /// has none to show, null if it does not reply in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<serde_json::Value>,
}

/// Actor page, and the totals.
#[derive(Debug, Clone)]
pub struct ActorList {
    /// The requested page.
    pub page: Page<ActorView>,
    /// Matching actors per kind.
    pub totals: BTreeMap<ActorKind, usize>,
}

impl ActorFilter {
    fn matches(&self, entry: &RegistryEntry) -> bool {
        let info = &entry.info;
        self.kind.is_none_or(|kind| info.kind == kind)
            && self
                .project
                .as_ref()
                .is_none_or(|project| info.project_id.as_ref() == Some(project))
            && (!self.failed
                || info.restarts() > 0
                || matches!(entry.status, ActorStatus::Restarting))
            // Plain text, not a pattern: paths contain the names that operators search for.
            && self.q.as_ref().is_none_or(|q| info.id.contains(q.as_str()))
    }
}

impl Tree {
    /// Returns a page of the actors that match the filter.
    pub async fn actors(&self, filter: &ActorFilter, page: PageRequest) -> ActorList {
        // The registry is visited under its lock, so entries are cloned only for the page. Snapshots are requested afterwards.
        let mut totals = BTreeMap::new();
        let mut shown = Vec::new();
        let (skip, take) = (
            usize::try_from(page.offset).unwrap_or(usize::MAX),
            page.limit as usize + 1,
        );
        let mut seen = 0;
        let mut visit = |entry: &RegistryEntry| {
            if filter.matches(entry) {
                *totals.entry(entry.info.kind).or_insert(0) += 1;
                if seen >= skip && shown.len() < take {
                    shown.push(entry.clone());
                }
                seen += 1;
            }
        };
        // By path the root would be last; it is shown first.
        if let Some(root) = self.registry().find("system") {
            visit(&root);
        }
        self.registry().for_each(|entry| {
            if entry.info.kind != ActorKind::System {
                visit(entry);
            }
        });
        let entries = Page::from_fetched(shown, page);
        let (request, has_more) = (entries.request, entries.has_more);
        let items = join_all(entries.items.into_iter().map(|entry| view(entry, false))).await;
        ActorList {
            page: Page {
                items,
                request,
                has_more,
            },
            totals,
        }
    }

    /// Returns one actor with its recent messages.
    pub async fn actor(&self, id: &str) -> Option<ActorView> {
        let entry = self.registry().find(id)?;
        // At the same time, so that a busy actor and a slow media plane share one time limit.
        let (shown, media) = tokio::join!(view(entry.clone(), true), self.inspect_media(&entry));
        Some(ActorView { media, ..shown })
    }

    /// Requests the media plane's data about a room's participants.
    async fn inspect_media(&self, entry: &RegistryEntry) -> Option<serde_json::Value> {
        let info = &entry.info;
        let project = info
            .project_id
            .as_ref()
            .filter(|_| info.kind == ActorKind::Room)?;
        let room = NamespacedRoom::new(project, &info.name().parse().ok()?);
        // Null is shown for a timeout, and the field is left out if the media plane has nothing to show.
        let answered = timeout(INSPECT_TIMEOUT, self.media().inspect_room(&room)).await;
        answered.unwrap_or(Some(serde_json::Value::Null))
    }
}

async fn view(entry: RegistryEntry, history: bool) -> ActorView {
    let RegistryEntry { info, status } = entry;
    let (status, inspection) = match status {
        ActorStatus::Restarting => ("restarting", None),
        ActorStatus::Hibernating(room) => ("hibernating", room.inspect(INSPECT_TIMEOUT).await),
        ActorStatus::Running(actor) => match actor.inspect(INSPECT_TIMEOUT).await {
            Some(inspection) => ("running", Some(inspection)),
            None => ("busy", None),
        },
    };
    // Identity and counters are shown even if the actor is busy.
    let (timers, state) = inspection.map_or_else(Default::default, |i| (i.timers, i.state));
    ActorView {
        id: info.id.to_string(),
        kind: info.kind,
        parent: info.parent.as_deref().map(str::to_owned),
        project_id: info.project_id.clone(),
        name: info.name().to_owned(),
        status,
        started_at: info.started_at(),
        restarts: info.restarts(),
        last_failure: info.last_failure(),
        mailbox: info.mailbox(),
        handled: info.handled(),
        timers,
        state,
        history: history.then(|| info.history()),
        media: None,
    }
}
