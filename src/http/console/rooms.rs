//! A project's rooms: live ones first, searchable by prefix.

use conclave_db::RoomFilter;
use conclave_model::page::{Page, PageRequest};
use conclave_model::project::Project;
use conclave_model::room::{Room, RoomStatus};
use maud::{Markup, html};

use super::layout::{self, PagePosition};
use super::new_room;
use super::parts::{ROWS, badge, empty, live, nothing, pager, table, time};
use super::route::{self, Route};
use super::visit::{PageResult, Visit};
use crate::http::api::error::ApiError;
use crate::http::api::v1;
use crate::http::api::v1::templates::TemplateJson;

/// Refresh interval in seconds.
const REFRESH_INTERVAL: u32 = 10;

pub fn routes() -> Vec<Route> {
    vec![route::page("/projects/{project}", list)]
}

/// Column of a room list.
#[derive(Clone, Copy)]
enum Column {
    Room,
    Participants,
    Created,
    FirstJoin,
    Ended,
    Status,
}

const LIVE: &[Column] = &[
    Column::Room,
    Column::Participants,
    Column::Created,
    Column::FirstJoin,
];
const ENDED: &[Column] = &[
    Column::Room,
    Column::Created,
    Column::FirstJoin,
    Column::Ended,
];
const FOUND: &[Column] = &[
    Column::Room,
    Column::Status,
    Column::Participants,
    Column::Created,
    Column::FirstJoin,
    Column::Ended,
];

impl Column {
    const fn name(self) -> &'static str {
        match self {
            Self::Room => "Room",
            Self::Participants => "Participants",
            Self::Created => "Created",
            Self::FirstJoin => "First join",
            Self::Ended => "Ended",
            Self::Status => "Status",
        }
    }

    fn cell(self, room: &Room, participants: Option<u32>) -> Markup {
        match self {
            Self::Room => {
                html! { a href={ "/projects/" (room.project_id) "/rooms/" (room.name) } { (room.name) } }
            }
            Self::Participants => seats(room, participants),
            Self::Created => time(room.created_at),
            Self::FirstJoin => time(room.started_at),
            Self::Ended => time(room.ended_at),
            Self::Status => badge(room.status.as_str()),
        }
    }
}

async fn list(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let page = PageRequest {
        limit: ROWS,
        offset: visit.offset(),
    };
    // From the store: the API's list of live rooms leaves out empty ones.
    let rooms = match visit.query("q") {
        Some(prefix) => found(&visit, &project, prefix, page).await?,
        None => all(&visit, &project, page).await?,
    };
    let templates = templates(&visit, &project).await?;
    let content = html! {
        h1 { "Rooms" }
        (search(&visit, &project))
        p { a href="#open-room" { "Open a room" } }
        (live(&visit, "rooms", REFRESH_INTERVAL, &rooms))
        (new_room::section(&visit, &project, &templates))
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, ""),
        &format!("Rooms of {}", project.name),
        &content,
    )))
}

fn search(visit: &Visit, project: &Project) -> Markup {
    let path = format!("/projects/{}", project.id);
    html! {
        form.search role="search" method="get" action=(path) {
            label for="q" { "Search by the start of the name" }
            input #q type="search" name="q" value=(visit.query("q").unwrap_or_default()) autocomplete="off"
                // Waits for a pause in typing.
                hx-get=(path) hx-trigger="input changed delay:250ms" hx-target="#rooms" hx-select="#rooms"
                hx-swap="outerHTML" hx-replace-url="true";
        }
    }
}

async fn found(
    visit: &Visit,
    project: &Project,
    prefix: String,
    page: PageRequest,
) -> Result<Markup, ApiError> {
    let mut rooms = match prefix.parse() {
        Ok(prefix) => {
            let filter = RoomFilter {
                name_prefix: Some(prefix),
                ..RoomFilter::default()
            };
            let store = &visit.state.store;
            store.rooms().list(project.id.clone(), filter, page).await?
        }
        // No name starts with such a text.
        Err(_) => Page::from_fetched(Vec::new(), page),
    };
    // Sorted per page only: the store returns rooms by name.
    rooms.items.sort_by_key(|room| room.ended_at.is_some());
    let counts = participants(visit, &rooms.items).await?;
    Ok(html! {
        @if rooms.items.is_empty() {
            (empty("No room has a name with this prefix.", "Upper and lower case differ."))
        } @else {
            (rows("Rooms found", FOUND, &rooms.items, &counts))
        }
        (pager(visit, page.offset, rooms.has_more))
    })
}

async fn all(visit: &Visit, project: &Project, page: PageRequest) -> Result<Markup, ApiError> {
    let store = &visit.state.store;
    let first = PageRequest {
        limit: ROWS,
        offset: 0,
    };
    // Live rooms are shown on the first page only.
    let live = if page.offset == 0 {
        Some(store.rooms().list_open(project.id.clone(), first).await?)
    } else {
        None
    };
    let rooms = store
        .rooms()
        .list(project.id.clone(), RoomFilter::default(), page)
        .await?;
    let open = live.as_ref().map_or(&[][..], |live| &live.items);
    let counts = participants(visit, open).await?;
    // With open rooms that are not among the first live ones, so that every room is on a page.
    let is_shown = |room: &Room| open.iter().any(|shown| shown.id == room.id);
    let others: Vec<Room> = rooms
        .items
        .iter()
        .filter(|room| !is_shown(room))
        .cloned()
        .collect();
    let counts_of_others = participants(visit, &others).await?;
    let (title, columns) = if others.iter().all(|room| room.status == RoomStatus::Ended) {
        ("Ended, newest first", ENDED)
    } else {
        ("Further rooms, newest first", FOUND)
    };
    Ok(html! {
        @if let Some(live) = &live {
            h2 { "Live" }
            @if live.items.is_empty() {
                (empty("No room is open.", "Open one below, or by POST /v1/rooms with a key of this project."))
            } @else {
                (rows("Live rooms", LIVE, &live.items, &counts))
                @if live.has_more { p.help { "The first " (ROWS) " are shown, and the others on the pages of older rooms." } }
            }
        }
        @if !others.is_empty() {
            h2 { (title) }
            (rows(title, columns, &others, &counts_of_others))
        }
        (pager(visit, page.offset, rooms.has_more))
    })
}

/// Counts the connected participants of each room, in their order; `None` for an ended room.
pub async fn participants(visit: &Visit, rooms: &[Room]) -> Result<Vec<Option<u32>>, ApiError> {
    let is_open = |room: &&Room| room.status == RoomStatus::Open;
    let open = rooms.iter().filter(is_open);
    let counts = visit
        .state
        .store
        .sessions()
        .count_open_in(
            open.map(|room| (room.project_id.clone(), room.id))
                .collect(),
        )
        .await?;
    let mut counts = counts.into_iter();
    Ok(rooms
        .iter()
        .map(|room| is_open(&room).then(|| counts.next()).flatten())
        .collect())
}

/// Renders the number of participants, with the room's own limit.
pub fn seats(room: &Room, participants: Option<u32>) -> Markup {
    let Some(count) = participants else {
        return nothing();
    };
    html! { (count) @if room.max_participants > 0 { " of " (room.max_participants) } }
}

/// Renders a table of rooms with the numbers of their participants.
fn rows(caption: &str, columns: &[Column], rooms: &[Room], counts: &[Option<u32>]) -> Markup {
    let row = |(room, count): (&Room, &Option<u32>)| {
        columns
            .iter()
            .map(|column| column.cell(room, *count))
            .collect()
    };
    let names: Vec<_> = columns.iter().map(|column| column.name()).collect();
    let rows: Vec<Vec<Markup>> = rooms.iter().zip(counts).map(row).collect();
    table(caption, &names, &rows)
}

/// Returns a project's templates, for a choice.
pub async fn templates(visit: &Visit, project: &Project) -> Result<Vec<TemplateJson>, ApiError> {
    Ok(visit
        .call(v1::templates::list, &project.id)
        // The API's largest page.
        .page(200, 0)
        .send()
        .await?
        .items)
}
