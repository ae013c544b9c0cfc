//! Debug endpoints: the live actors with their state, and every event as it is committed.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::sync::Arc;

use actix_web::http::header::{Accept, Header, Quality};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_actors::ActorKind;
use conclave_actors::debug::{ActorFilter, ActorList, ActorView};
use conclave_model::{ErrorCode, Problem, ProjectId};
use futures_util::stream;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use utoipa::IntoParams;

use super::events;
use crate::http::api::error::ApiError;
use crate::http::api::input::{FromQuery, Paged};
use crate::http::api::spec::Method;
use crate::http::resource::single_method_resource;
use crate::http::state::AppState;

/// Routes the debug endpoints.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let list_state = Arc::clone(state);
    let list = web::get().to(move |request: HttpRequest| list(Arc::clone(&list_state), request));
    config.service(single_method_resource("/debug/actors", Method::Get, list));
    let one_state = Arc::clone(state);
    let one = web::get().to(move |request: HttpRequest| one(Arc::clone(&one_state), request));
    // An actor's id is a path, such as `PROJECT/room/NAME`.
    config.service(single_method_resource(
        "/debug/actors/{id:.+}",
        Method::Get,
        one,
    ));
    // On SQLite there is no lease, so the path is a 404.
    if let Some(lease) = state.lease.clone() {
        let shown = web::get().to(move || {
            let shown = HttpResponse::Ok().json(lease.to_json());
            async move { shown }
        });
        config.service(single_method_resource("/debug/lease", Method::Get, shown));
    }
    let events_state = Arc::clone(state);
    let events =
        web::get().to(move |request: HttpRequest| events(Arc::clone(&events_state), request));
    config.service(single_method_resource("/debug/events", Method::Get, events));
}

/// Returns whether a client prefers plain text to JSON: it accepts `text/plain`, and JSON with a lower quality or later in the header.
fn wants_text(request: &HttpRequest) -> bool {
    let Ok(Accept(ranges)) = Accept::parse(request) else {
        return false;
    };
    // Order breaks a tie. `*/*` stands for JSON only at the lowest rank: curl sends it alone, and gets JSON.
    let wanted = |names: &[&str]| {
        let named = ranges
            .iter()
            .enumerate()
            .filter(|(_, range)| names.contains(&range.item.essence_str()));
        named
            .map(|(place, range)| (range.quality, Reverse(place)))
            .max()
    };
    let text = wanted(&["text/plain"]).filter(|(quality, _)| *quality > Quality::ZERO);
    let rest = wanted(&["*/*"]).map(|(quality, _)| (quality, Reverse(usize::MAX)));
    let json = wanted(&["application/json", "application/*"]).or(rest);
    text.is_some_and(|text| json.is_none_or(|json| text > json))
}

/// Filters for the actor list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct ActorQuery {
    /// Only of this kind
    #[param(value_type = Option<String>)]
    #[serde(default, deserialize_with = "kind")]
    kind: Option<ActorKind>,
    /// Only in this project
    #[param(inline)]
    project: Option<ProjectId>,
    /// Only with this text in the name
    q: Option<String>,
}

/// Filter for the event stream.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct EventQuery {
    /// Only from this project
    #[param(inline)]
    project: Option<ProjectId>,
}

fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ActorKind>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let found = ActorKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == word);
    let message = "must be one of system, project, room, egress, ingress, webhook_endpoint";
    found.map(Some).ok_or_else(|| D::Error::custom(message))
}

async fn list(state: Arc<AppState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let Paged {
        page,
        filter: ActorQuery { kind, project, q },
    } = Paged::from_query(request.query_string())?;
    // The endpoint shows all; only the console filters by failure.
    let filter = ActorFilter {
        kind,
        project,
        q,
        failed: false,
    };
    let list = state.tree.actors(&filter, page).await;
    if wants_text(&request) {
        return Ok(HttpResponse::Ok()
            .content_type("text/plain; charset=utf-8")
            .body(tree(&list)));
    }
    let ActorList { page, totals } = list;
    Ok(HttpResponse::Ok().json(json!({
        "actors": page.items, "limit": page.request.limit, "offset": page.request.offset,
        "has_more": page.has_more, "totals": totals
    })))
}

async fn one(state: Arc<AppState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let id = request.match_info().query("id");
    let actor = state.tree.actor(id).await;
    let actor = actor.ok_or_else(|| Problem::new(ErrorCode::NotFound, "no actor by that id"))?;
    if wants_text(&request) {
        let mut text = line(&actor);
        for participant in actor
            .media
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            // Writing into a `String` cannot fail.
            let _ = writeln!(text, "  media  {participant}");
        }
        for step in actor.history.iter().flatten() {
            let _ = writeln!(text, "  {}  {}", step.at, step.message);
        }
        return Ok(HttpResponse::Ok()
            .content_type("text/plain; charset=utf-8")
            .body(text));
    }
    Ok(HttpResponse::Ok().json(actor))
}

/// Renders an actor as a line, indented by its depth in the tree.
fn line(actor: &ActorView) -> String {
    let depth = match actor.kind {
        ActorKind::System => 0,
        ActorKind::Project => 1,
        ActorKind::Room | ActorKind::Egress | ActorKind::Ingress | ActorKind::WebhookEndpoint => 2,
    };
    let indent = "  ".repeat(depth);
    let mut line = format!(
        "{indent}{} {} [{}]",
        actor.kind.as_str(),
        actor.name,
        actor.status
    );
    // Writing into a String cannot fail.
    let _ = write!(
        line,
        " mailbox={} handled={} restarts={}",
        actor.mailbox, actor.handled, actor.restarts
    );
    for timer in &actor.timers {
        let _ = write!(line, " {}@{}", timer.name, timer.fires_at);
    }
    if let Some(failure) = &actor.last_failure {
        let _ = write!(line, " last_failure={}@{}", failure.reason, failure.at);
    }
    if !actor.state.is_null() {
        let _ = write!(line, " {}", actor.state);
    }
    line.push('\n');
    line
}

fn tree(list: &ActorList) -> String {
    let mut text: String = list.page.items.iter().map(line).collect();
    let totals: Vec<_> = list
        .totals
        .iter()
        .map(|(kind, count)| format!("{}={count}", kind.as_str()))
        .collect();
    // Writing into a `String` cannot fail.
    let _ = writeln!(
        text,
        "-- {}{}",
        totals.join(" "),
        if list.page.has_more {
            " (more: see offset)"
        } else {
            ""
        }
    );
    text
}

/// Streams server-sent events, starting now. If the client is too slow, a comment states how many events it missed.
async fn events(state: Arc<AppState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let EventQuery { project } = EventQuery::from_query(request.query_string())?;
    let watch = Watch {
        events: state.admin.relay.watch(),
        project,
    };
    Ok(events::open_stream(
        &state,
        &request,
        stream::unfold(watch, next_event),
    ))
}

/// Event stream's state.
struct Watch {
    events: broadcast::Receiver<conclave_db::CommittedEvent>,
    project: Option<ProjectId>,
}

async fn next_event(mut watch: Watch) -> Option<(String, Watch)> {
    loop {
        let text = match watch.events.recv().await {
            // The relay sends all projects' events, so they are filtered here.
            Ok(event)
                if watch
                    .project
                    .as_ref()
                    .is_some_and(|project| *project != event.project_id) =>
            {
                continue;
            }
            Ok(event) => format!(
                "id: {}\nevent: {}\ndata: {}\n\n",
                event.id, event.event_type, event.payload
            ),
            // A comment in the stream: clients ignore it, and readers of the text see it.
            Err(RecvError::Lagged(missed)) => format!(": {missed} events were missed\n\n"),
            // The server stops.
            Err(RecvError::Closed) => return None,
        };
        return Some((text, watch));
    }
}
