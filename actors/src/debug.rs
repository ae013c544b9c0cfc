//! What the debug endpoint shows: every actor with its info, and with its own snapshot where it is asked for.
//!
//! The list is made of cards, which cost no message. Only the actors on the page shown are asked, one message each, and
//! one that does not answer in time is shown without its state.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_model::page::{Page, PageRequest};
use conclave_model::{ProjectId, Timestamp};
use futures_util::future::join_all;
use serde::Serialize;

use crate::info::{ActorKind, Failure, HandledMessage};
use crate::registry::{ActorStatus, RegistryEntry};
use crate::timer::TimerView;
use crate::tree::Tree;

const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// Which actors are wanted.
#[derive(Debug, Clone, Default)]
pub struct ActorFilter {
    /// Of this kind.
    pub kind: Option<ActorKind>,
    /// Of this project.
    pub project: Option<ProjectId>,
    /// With this in their path.
    pub q: Option<String>,
}

/// An actor as it is shown.
#[derive(Debug, Clone, Serialize)]
pub struct ActorView {
    /// The path.
    pub id: String,
    /// What it is.
    pub kind: ActorKind,
    /// Its supervisor's path.
    pub parent: Option<String>,
    /// Whose it is.
    pub project_id: Option<ProjectId>,
    /// The last part of the path.
    pub name: String,
    /// `running`, `hibernating`, `restarting`, or `busy` when it did not answer in time.
    pub status: &'static str,
    /// When it was last started.
    pub started_at: Timestamp,
    /// Times it failed and was restored.
    pub restarts: u32,
    /// How it last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
    /// Messages waiting.
    pub mailbox: u64,
    /// Messages handled.
    pub handled: u64,
    /// Its timers.
    pub timers: Vec<TimerView>,
    /// Its own snapshot.
    pub state: serde_json::Value,
    /// The latest messages, when one actor is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<HandledMessage>>,
}

/// A page of actors, and how many there are of each kind.
#[derive(Debug, Clone)]
pub struct ActorList {
    /// The page.
    pub page: Page<ActorView>,
    /// All that match the filter, by kind.
    pub totals: BTreeMap<ActorKind, usize>,
}

impl ActorFilter {
    fn matches(&self, entry: &RegistryEntry) -> bool {
        let info = &entry.info;
        self.kind.is_none_or(|kind| info.kind == kind)
            && self.project.as_ref().is_none_or(|project| info.project_id.as_ref() == Some(project))
            && self.q.as_ref().is_none_or(|q| info.id.contains(q.as_str()))
    }
}

impl Tree {
    /// A page of the actors that match.
    pub async fn actors(&self, filter: &ActorFilter, page: PageRequest) -> ActorList {
        let mut totals = BTreeMap::new();
        let mut shown = Vec::new();
        let (skip, take) = (usize::try_from(page.offset).unwrap_or(usize::MAX), page.limit as usize + 1);
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
        // The root has no project and sorts last by path; a tree is read from its root.
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
        ActorList { page: Page { items, request, has_more }, totals }
    }

    /// One actor with its recent history.
    pub async fn actor(&self, id: &str) -> Option<ActorView> {
        let entry = self.registry().find(id)?;
        Some(view(entry, true).await)
    }
}

async fn view(entry: RegistryEntry, history: bool) -> ActorView {
    let RegistryEntry { info, status } = entry;
    let (status, inspection) = match status {
        ActorStatus::Restarting => ("restarting", None),
        ActorStatus::Hibernating(room) => ("hibernating", room.inspect(ANSWER_WITHIN).await),
        ActorStatus::Running(actor) => match actor.inspect(ANSWER_WITHIN).await {
            Some(inspection) => ("running", Some(inspection)),
            None => ("busy", None),
        },
    };
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
    }
}
