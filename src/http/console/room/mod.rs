//! A room: its participants with their tracks, actions, and its events as they happen.
//!
//! - [`participants`]: the participants, and actions on them.
//! - [`jobs`]: the room's recordings, broadcasts and ingress endpoints.
//! - [`codes`]: its room codes.
//! - [`bans`]: its bans.
//! - [`history`]: its events since its creation.
//!
//! Events are server-sent events that htmx adds to the page. Nothing is sent while nothing happens.

mod bans;
mod codes;
mod history;
mod jobs;
mod participants;

use std::sync::Arc;

use actix_web::HttpRequest;
use conclave_actors::debug::ActorView;
use conclave_db::CommittedEvent;
use conclave_model::room::RoomStatus;
use conclave_model::{ProjectId, RoleName, Timestamp};
use futures_util::stream;
use maud::{Markup, html};
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::layout::{self, PagePosition};
use super::parts::{badge, danger, empty, facts, length, live, nothing, pretty, time};
use super::route::{self, Route};
use super::visit::{PageResult, Visit, encoded};
use crate::http::admin::events;
use crate::http::api::error::ApiError;
use crate::http::api::response::Json;
use crate::http::api::v1::destinations::{self, DestinationJson};
use crate::http::api::v1::rooms::{self, RoomJson};
use crate::http::api::v1::templates;
use crate::http::state::AppState;

/// Refresh interval for live parts, in seconds.
const REFRESH_INTERVAL: u32 = 5;

pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        route::page("/projects/{project}/rooms/{name}", show),
        route::action("/projects/{project}/rooms/{name}/end", end),
        route::page("/projects/{project}/rooms/{name}/events", stream),
    ];
    routes.extend(participants::routes());
    routes.extend(jobs::routes());
    routes.extend(codes::routes());
    routes.extend(bans::routes());
    routes
}

/// Data for a room page.
struct RoomPage<'a> {
    visit: &'a Visit,
    project: &'a ProjectId,
    room: RoomJson,
    /// The template's role names.
    roles: Vec<RoleName>,
    /// The template's destinations.
    destinations: Vec<DestinationJson>,
}

impl RoomPage<'_> {
    async fn read<'a>(visit: &'a Visit, project: &'a ProjectId) -> Result<RoomPage<'a>, ApiError> {
        let Json(room) = visit
            .call(rooms::get, project)
            .path("name", &visit.param("name"))
            .send()
            .await?;
        let mut page = RoomPage {
            visit,
            project,
            room,
            roles: Vec::new(),
            destinations: Vec::new(),
        };
        if let Some(id) = &page.room.template_id {
            // A deleted template has neither; the room's page must work all the same.
            if let Ok(Json(template)) = visit
                .call(templates::get, project)
                .path("id", id.as_str())
                .send()
                .await
            {
                page.roles = template.roles.into_keys().collect();
            }
            if let Ok(Json(listed)) = visit
                .call(destinations::list, project)
                .path("id", id.as_str())
                .send()
                .await
            {
                page.destinations = listed.destinations;
            }
        }
        Ok(page)
    }

    fn name(&self) -> &str {
        self.room.name.as_str()
    }

    fn is_open(&self) -> bool {
        self.room.status == RoomStatus::Open
    }

    /// Returns a path below the room's.
    fn path(&self, rest: &str) -> String {
        format!(
            "/projects/{}/rooms/{}{rest}",
            self.project,
            encoded(self.name())
        )
    }

    /// Returns the room's actor, if it has one.
    async fn actor(&self) -> Option<ActorView> {
        self.visit
            .state
            .tree
            // The id under which the tree registers it.
            .actor(&format!("{}/room/{}", self.project, self.name()))
            .await
    }

    fn head(&self) -> Markup {
        let room = &self.room;
        let cap = match room.max_participants {
            0 => "the plan's limit".to_owned(),
            cap => cap.to_string(),
        };
        let template = match &room.template_id {
            Some(id) => {
                html! { a href={ "/projects/" (self.project) "/templates/" (id) } { (id) } }
            }
            None => nothing(),
        };
        let ended = ("Ended", time(room.ended_at));
        let mut shown = vec![
            ("Created", time(room.created_at)),
            ("First join", time(room.started_at)),
            ("Participants at most", html! { (cap) }),
            ("Empty timeout", html! { (room.empty_timeout_seconds) " s" }),
            ("Template", template),
        ];
        let lasts = |seconds: u32| ("Lasts at most", html! { (length(seconds.into())) });
        shown.extend(room.max_duration_seconds.map(lasts));
        shown.extend((!self.is_open()).then_some(ended));
        html! {
            h1 { (self.name()) " " (badge(room.status.as_str())) }
            (facts(&shown))
            div.actions {
                a href={ "/projects/" (self.project) "/sessions?room=" (self.name()) } { "Sessions and timeline" }
                @if self.is_open() {
                    a href={ "/actors/" (self.project) "/room/" (self.name()) } { "Actor" }
                    (danger(self.visit, &self.path("/end"), "End room", "End the room and disconnect everyone?"))
                }
            }
        }
    }

    fn metadata(&self) -> Markup {
        html! {
            @if let Some(metadata) = &self.room.metadata {
                h2 { "Metadata" }
                pre tabindex="0" aria-label="Metadata" { (pretty(metadata)) }
            }
        }
    }
}

async fn show(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let page = RoomPage::read(&visit, &project.id).await?;
    // An ended room has none.
    let actor = if page.is_open() {
        page.actor().await
    } else {
        None
    };
    // Not an error of the page: the media plane may be unreachable, and the room can still be ended.
    let participants = page.participants(actor.as_ref()).await;
    let jobs = page.jobs().await?;
    let codes = page.codes().await?;
    let bans = page.bans().await?;
    let history = page.history().await?;
    let content = html! {
        (page.head())
        (live(&visit, "live", REFRESH_INTERVAL, &html! { (participants) (jobs) }))
        @if page.is_open() {
            (page.events())
            (page.message_form())
            div.cards { (page.recording_form()) (page.broadcast_form()) (page.ingress_form()) }
        } @else {
            (empty("The room has ended.", "An ended room never reopens, and its name is not used again."))
        }
        (codes)
        (bans)
        (history)
        (page.metadata())
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, ""),
        page.name(),
        &content,
    )))
}

async fn end(visit: Visit) -> PageResult {
    let (project, name) = (visit.project_id()?, visit.param("name"));
    visit
        .call(rooms::end, &project)
        .path("name", &name)
        .send()
        .await?;
    Ok(visit.done(&room_path(&project, &name), "room-ended"))
}

/// Returns the path to a room's page.
fn room_path(project: &ProjectId, name: &str) -> String {
    format!("/projects/{project}/rooms/{}", encoded(name))
}

/// Maximum events on the page.
// A script removes older ones, so that a long call does not fill the browser.
const MAX_EVENTS: u32 = 50;
/// Payload fields that the start of a line shows already.
const FIELDS_IN_HEAD: [&str; 5] = [
    "type",
    "project_id",
    "room",
    "occurred_at",
    "namespaced_room",
];

impl RoomPage<'_> {
    pub(super) fn events(&self) -> Markup {
        html! {
            section.card {
                h2 { "Events as they happen" }
                // `polite`: read aloud when the reader pauses.
                ul.events aria-live="polite" data-most=(MAX_EVENTS) hx-ext="sse" sse-connect=(self.path("/events"))
                    sse-swap="event" hx-swap="afterbegin" {
                    li.help { "New events appear here. Earlier ones are in the event history below." }
                }
            }
        }
    }
}

/// Event stream's state.
struct Watch {
    events: Receiver<CommittedEvent>,
    project: ProjectId,
    /// The room's name as JSON, as in payloads.
    room: String,
    state: Arc<AppState>,
    request: HttpRequest,
}

/// Streams a room's events, from now on. The stream ends with the session.
pub async fn stream(visit: Visit) -> PageResult {
    let project = visit.project_id()?;
    let (state, request) = (Arc::clone(&visit.state), visit.request.clone());
    let watch = Watch {
        events: visit.state.admin.relay.watch(),
        // Encoded as JSON, for the search in payloads.
        room: Value::from(visit.param("name")).to_string(),
        project,
        state: visit.state,
        request: visit.request,
    };
    // A stream counts towards `MAX_STREAMS`.
    Ok(events::open_stream(
        &state,
        &request,
        stream::unfold(watch, next),
    ))
}

async fn next(mut watch: Watch) -> Option<(String, Watch)> {
    loop {
        let event = match watch.events.recv().await {
            Ok(event) if event.project_id == watch.project => event,
            // Missed events still show in the page's other parts, which refresh.
            Ok(_) | Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return None,
        };
        // A text search first, so that only this room's payloads are parsed.
        if !event.payload.contains(&format!("\"room\":{}", watch.room)) {
            continue;
        }
        // Checked per event, because the operator may have signed out meanwhile.
        watch.state.admin.console.operator(&watch.request)?;
        // A line break would end the `data` field of a server-sent event.
        let line = line(&event).into_string().replace(['\r', '\n'], " ");
        return Some((format!("event: event\ndata: {line}\n\n"), watch));
    }
}

fn line(event: &CommittedEvent) -> Markup {
    let payload: Value = serde_json::from_str(&event.payload).unwrap_or_default();
    let occurred_at: Option<Timestamp> = payload["occurred_at"]
        .as_str()
        .and_then(|text| text.parse().ok());
    html! {
        li { (time(occurred_at)) " " strong { (event.event_type) } (payload_fields(&payload)) }
    }
}

/// Renders a payload's fields besides those at the start of a line.
fn payload_fields(payload: &Value) -> Markup {
    let rest = payload
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !FIELDS_IN_HEAD.contains(&name.as_str()));
    html! {
        @for (name, value) in rest {
            " " small { (name.replace('_', " ")) ": " (value.as_str().map_or_else(|| value.to_string(), str::to_owned)) }
        }
    }
}
