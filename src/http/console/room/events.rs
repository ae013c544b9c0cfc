//! The events of a room as they happen, as server-sent events that htmx puts into the page. Nothing is sent while nothing happens.

use std::sync::Arc;

use actix_web::HttpRequest;
use conclave_db::CommittedEvent;
use conclave_model::{ProjectId, Timestamp};
use futures_util::stream;
use maud::{Markup, html};
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::RoomPage;
use crate::http::admin::event_stream;
use crate::http::console::parts::time;
use crate::http::console::visit::{Answer, Visit};
use crate::http::state::AppState;

/// Events that the page keeps.
const KEPT: u32 = 50;
/// The fields of a payload that the first words of its line tell already.
const SAID: [&str; 5] = [
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
                ul.events aria-live="polite" data-most=(KEPT) hx-ext="sse" sse-connect=(self.path("/events"))
                    sse-swap="event" hx-swap="afterbegin" {
                    li.help { "Those from now on are shown here. Earlier ones are in the deliveries of webhooks." }
                }
            }
        }
    }
}

/// An open stream.
struct Watch {
    events: Receiver<CommittedEvent>,
    project: ProjectId,
    /// The room as payloads name it.
    room: String,
    state: Arc<AppState>,
    request: HttpRequest,
}

/// The stream of a room's events, from now on. It ends with the session.
pub async fn stream(visit: Visit) -> Answer {
    let project = visit.project_id()?;
    let (state, request) = (Arc::clone(&visit.state), visit.request.clone());
    let watch = Watch {
        events: visit.state.admin.relay.watch(),
        room: Value::from(visit.param("name")).to_string(),
        project,
        state: visit.state,
        request: visit.request,
    };
    Ok(event_stream::open(
        &state,
        &request,
        stream::unfold(watch, next),
    ))
}

async fn next(mut watch: Watch) -> Option<(String, Watch)> {
    loop {
        let event = match watch.events.recv().await {
            Ok(event) if event.project_id == watch.project => event,
            Ok(_) | Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return None,
        };
        // The payload is parsed for the events of this room only.
        if !event.payload.contains(&format!("\"room\":{}", watch.room)) {
            continue;
        }
        watch.state.admin.console.operator(&watch.request)?;
        // A line of server-sent events ends at a line break.
        let line = line(&event).into_string().replace(['\r', '\n'], " ");
        return Some((format!("event: event\ndata: {line}\n\n"), watch));
    }
}

fn line(event: &CommittedEvent) -> Markup {
    let payload: Value = serde_json::from_str(&event.payload).unwrap_or_default();
    let occurred_at: Option<Timestamp> = payload["occurred_at"]
        .as_str()
        .and_then(|text| text.parse().ok());
    let rest = payload
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !SAID.contains(&name.as_str()));
    html! {
        li {
            (time(occurred_at)) " " strong { (event.event_type) }
            @for (name, value) in rest {
                " " small { (name.replace('_', " ")) ": " (value.as_str().map_or_else(|| value.to_string(), str::to_owned)) }
            }
        }
    }
}
