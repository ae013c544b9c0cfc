//! Live objects of all projects, which the overview counts: open rooms, connected participants, running recordings and broadcasts.

use std::collections::BTreeMap;

use conclave_model::ProjectId;
use conclave_model::egress::{Egress, EgressDetail, EgressKind};
use conclave_model::page::{Page, PageRequest};
use conclave_model::participant::Session;
use conclave_model::room::Room;
use maud::{Markup, html};

use super::layout::{self, PagePosition};
use super::parts::{self, ROWS, badge, empty, or_nothing, pager_with_names, table, time};
use super::rooms;
use super::route::{self, Route};
use super::visit::{PageResult, Visit};
use crate::http::api::error::ApiError;

/// Paths of the lists.
pub const ROOMS: &str = "/live/rooms";
pub const PARTICIPANTS: &str = "/live/participants";
pub const EGRESSES: &str = "/live/egresses";

/// Refresh interval in seconds.
const REFRESH_INTERVAL: u32 = 10;

pub fn routes() -> Vec<Route> {
    vec![
        route::page(ROOMS, show_rooms),
        route::page(PARTICIPANTS, show_participants),
        route::page(EGRESSES, show_egresses),
    ]
}

/// One of the lists.
struct LiveList {
    title: &'static str,
    /// Texts for an empty list.
    none: [&'static str; 2],
    columns: &'static [&'static str],
    rows: Vec<Vec<Markup>>,
    has_more: bool,
}

impl LiveList {
    fn show(&self, visit: &Visit) -> PageResult {
        let content = html! {
            p { a href="/" { "Overview" } }
            h1 { (self.title) }
            (parts::live(visit, "live", REFRESH_INTERVAL, &html! {
                @if let ([], [what, how]) = (self.rows.as_slice(), self.none) {
                    (empty(what, how))
                } @else {
                    (table(self.title, self.columns, &self.rows))
                }
                // Sorted by project first, so the pages are not by time.
                (pager_with_names(visit, visit.offset(), self.has_more, ["Previous", "Next"]))
            }))
        };
        Ok(visit.show(layout::page(
            visit,
            PagePosition::Server("/"),
            self.title,
            &content,
        )))
    }
}

fn page(visit: &Visit) -> PageRequest {
    PageRequest {
        limit: ROWS,
        offset: visit.offset(),
    }
}

/// Names of the projects in a list.
struct ProjectNames(BTreeMap<ProjectId, String>);

impl ProjectNames {
    async fn read<T>(
        visit: &Visit,
        listed: &Page<T>,
        project: fn(&T) -> &ProjectId,
    ) -> Result<Self, ApiError> {
        let mut names = BTreeMap::new();
        for id in listed.items.iter().map(project) {
            if names.contains_key(id) {
                continue;
            }
            if let Some(found) = visit.state.store.projects().get(id.clone()).await? {
                names.insert(id.clone(), found.name);
            }
        }
        Ok(Self(names))
    }

    /// Renders a link to a project.
    fn link(&self, id: &ProjectId) -> Markup {
        let name = self.0.get(id).map_or(id.as_str(), String::as_str);
        html! { a href={ "/projects/" (id) } { (name) } }
    }
}

async fn show_rooms(visit: Visit) -> PageResult {
    let listed = visit
        .state
        .store
        .rooms()
        .list_open_of_all(page(&visit))
        .await?;
    let names = ProjectNames::read(&visit, &listed, |room| &room.project_id).await?;
    let counts = rooms::participants(&visit, &listed.items).await?;
    let row = |(room, count): (&Room, &Option<u32>)| {
        vec![
            html! { a href={ "/projects/" (room.project_id) "/rooms/" (room.name) } { (room.name) } },
            names.link(&room.project_id),
            rooms::seats(room, *count),
            time(room.created_at),
            time(room.started_at),
        ]
    };
    let list = LiveList {
        title: "Live rooms",
        none: [
            "No room is open.",
            "Open rooms of all projects are listed here.",
        ],
        columns: &["Room", "Project", "Participants", "Created", "First join"],
        rows: listed.items.iter().zip(&counts).map(row).collect(),
        has_more: listed.has_more,
    };
    list.show(&visit)
}

async fn show_participants(visit: Visit) -> PageResult {
    let listed = visit
        .state
        .store
        .sessions()
        .list_open_of_all(page(&visit))
        .await?;
    let names = ProjectNames::read(&visit, &listed, |session| &session.project_id).await?;
    let row = |session: &Session| {
        let path = format!("/projects/{}", session.project_id);
        vec![
            html! { a href={ (path) "/sessions/" (session.id) } { (session.participant_identity) } },
            html! { a href={ (path) "/rooms/" (session.room) } { (session.room) } },
            names.link(&session.project_id),
            or_nothing(session.role.as_ref()),
            time(session.joined_at),
        ]
    };
    let list = LiveList {
        title: "Live participants",
        none: [
            "No participant is connected.",
            "Participants of all projects' rooms are listed here.",
        ],
        columns: &["Participant", "Room", "Project", "Role", "Joined"],
        rows: listed.items.iter().map(row).collect(),
        has_more: listed.has_more,
    };
    list.show(&visit)
}

async fn show_egresses(visit: Visit) -> PageResult {
    let listed = visit
        .state
        .store
        .egresses()
        .list_running_of_all(page(&visit))
        .await?;
    let names = ProjectNames::read(&visit, &listed, |egress| &egress.project_id).await?;
    let row = |egress: &Egress| {
        let path = format!("/projects/{}", egress.project_id);
        vec![
            egress_link(&path, egress),
            badge(egress.status.as_str()),
            html! { a href={ (path) "/rooms/" (egress.room) } { (egress.room) } },
            names.link(&egress.project_id),
            time(egress.started_at),
        ]
    };
    let list = LiveList {
        title: "Recordings and broadcasts",
        none: [
            "No recording or broadcast is running.",
            "Running ones of all projects are listed here.",
        ],
        columns: &["File or receivers", "Status", "Room", "Project", "Started"],
        rows: listed.items.iter().map(row).collect(),
        has_more: listed.has_more,
    };
    list.show(&visit)
}

/// Renders a link to a recording, or to the room's broadcasts, which have no pages of their own.
fn egress_link(path: &str, egress: &Egress) -> Markup {
    match &egress.detail {
        EgressDetail::Recording { filepath, .. } => {
            html! { a href={ (path) "/recordings/" (egress.egress_id) } { (filepath) } }
        }
        EgressDetail::Broadcast { urls } => {
            // Stored without stream keys.
            let receivers = urls.join(", ");
            html! {
                a href={ (path) "/broadcasts?room=" (egress.room) } {
                    @if receivers.is_empty() { (EgressKind::Broadcast) } @else { (receivers) }
                }
            }
        }
    }
}
