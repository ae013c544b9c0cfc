//! A project's rooms: live ones first, searchable by prefix; and creating one.

use conclave_db::RoomFilter;
use conclave_model::page::{Page, PageRequest};
use conclave_model::project::Project;
use conclave_model::room::Room;
use maud::{Markup, html};
use serde_json::json;

use super::layout::{self, PagePosition};
use super::parts::{ROWS, badge, empty, field, form, live, pager, select, table, time};
use super::route::{self, Route};
use super::visit::{PageResult, Visit};
use crate::http::api::error::ApiError;
use crate::http::api::response::Json;
use crate::http::api::v1;
use crate::http::api::v1::templates::TemplateJson;

/// Refresh interval in seconds.
const REFRESH_INTERVAL: u32 = 10;
/// Room list columns.
const COLUMNS: [&str; 5] = ["Room", "Created", "First join", "Ended", "Status"];
/// Numbers of columns for live rooms, and for ended rooms.
const LIVE_COLUMNS: usize = 3;
const ENDED_COLUMNS: usize = 4;

pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}", list),
        route::action("/projects/{project}/rooms", create),
    ]
}

async fn list(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let page = PageRequest {
        limit: ROWS,
        offset: visit.offset(),
    };
    // From the store: the API has neither a search by prefix nor a list of live rooms.
    let rooms = match visit.query("q") {
        Some(prefix) => found(&visit, &project, prefix, page).await?,
        None => all(&visit, &project, page).await?,
    };
    let templates = templates(&visit, &project).await?;
    let content = html! {
        h1 { "Rooms" }
        (search(&visit, &project))
        (live(&visit, "rooms", REFRESH_INTERVAL, &rooms))
        (create_form(&visit, &project, &templates))
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
    Ok(html! {
        @if rooms.items.is_empty() {
            (empty("No room has a name with this prefix.", "Upper and lower case differ."))
        } @else {
            (rows("Rooms found", COLUMNS.len(), &rooms, project))
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
    Ok(html! {
        @if let Some(live) = live {
            h2 { "Live" }
            @if live.items.is_empty() {
                (empty("No room is open.", "Open one below, or by POST /v1/rooms with a key of this project."))
            } @else {
                (rows("Live rooms", LIVE_COLUMNS, &live, project))
                @if live.has_more { p.help { "The first " (ROWS) " are shown. Search to find others." } }
            }
        }
        @if rooms.items.iter().any(|room| room.ended_at.is_some()) {
            h2 { "Ended, newest first" }
            (rows("Ended rooms", ENDED_COLUMNS, &Page { items: ended(&rooms.items), ..rooms.clone() }, project))
        }
        (pager(visit, page.offset, rooms.has_more))
    })
}

/// Returns the ended rooms.
fn ended(rooms: &[Room]) -> Vec<Room> {
    rooms
        .iter()
        .filter(|room| room.ended_at.is_some())
        .cloned()
        .collect()
}

/// Renders a table with the first `columns` columns.
fn rows(caption: &str, columns: usize, rooms: &Page<Room>, project: &Project) -> Markup {
    let row = |room: &Room| {
        vec![
            html! { a href={ "/projects/" (project.id) "/rooms/" (room.name) } { (room.name) } },
            time(room.created_at),
            time(room.started_at),
            time(room.ended_at),
            badge(room.status.as_str()),
        ]
    };
    table(
        caption,
        COLUMNS.get(..columns).unwrap_or(&COLUMNS),
        &rooms.items.iter().map(row).collect::<Vec<_>>(),
    )
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

fn create_form(visit: &Visit, project: &Project, templates: &[TemplateJson]) -> Markup {
    let mut choices = vec![("", "the project's default")];
    choices.extend(
        templates
            .iter()
            .map(|template| (template.id.as_str(), template.name.as_str())),
    );
    html! {
        section.card {
            h2 { "Open a room" }
            (form(visit, &format!("/projects/{}/rooms", project.id), &html! {
                div.fields {
                    (field("room-name", "Name", &html! { input #room-name name="name" required maxlength="128"; },
                        "Letters, digits, _ and -; never used before in the project"))
                    (field("template", "Template", &select("template", "template_id", &choices, ""), ""))
                    (field("timeout", "Stays open when empty (seconds)", &html! {
                        input #timeout type="number" name="empty_timeout_seconds" min="0" placeholder="300";
                    }, ""))
                }
                p { button type="submit" { "Open room" } }
            }))
        }
    }
}

async fn create(visit: Visit) -> PageResult {
    let project = visit.project_id()?;
    let mut body = json!({"name": visit.field("name")});
    if let Some(template) = visit.optional("template_id") {
        body["template_id"] = json!(template);
    }
    if let Some(seconds) = visit.number("empty_timeout_seconds")? {
        body["empty_timeout_seconds"] = json!(seconds);
    }
    let Json(room) = visit
        .call(v1::rooms::create, &project)
        .body(body)
        .send()
        .await?;
    Ok(visit.done(
        &format!("/projects/{project}/rooms/{}", room.name),
        "room-created",
    ))
}
