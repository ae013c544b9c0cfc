//! `/debug/projects/{project}/events`: the events of a project from a position on, without a gap, for `conclave listen`.
//!
//! The events are read from the records, a page at a time. A request for those after the newest one waits until there is one, so a
//! client that asks again and again has each event soon, and once.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_db::{CommittedEvent, EventGap, EventPage, StoredEvent};
use conclave_model::{ErrorCode, Problem, ProjectId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;
use utoipa::IntoParams;

use super::event_stream;
use crate::http::api::error::ApiError;
use crate::http::api::input::FromQuery;
use crate::http::api::spec::Method;
use crate::http::listener::activity::Handling;
use crate::http::resource::single_method_resource;
use crate::http::state::AppState;

/// The most events of a response.
const PAGE: u32 = 100;
/// How long a request waits for an event.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Routes the endpoints.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let events_state = Arc::clone(state);
    let events =
        web::get().to(move |request: HttpRequest| events(Arc::clone(&events_state), request));
    config.service(single_method_resource(
        "/debug/projects/{project}/events",
        Method::Get,
        events,
    ));
    let secret_state = Arc::clone(state);
    let secret =
        web::get().to(move |request: HttpRequest| secret(Arc::clone(&secret_state), request));
    config.service(single_method_resource(
        "/debug/projects/{project}/signing-secret",
        Method::Get,
        secret,
    ));
}

/// Where to read from.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct PositionQuery {
    /// The position of the last event that the client has had
    after: Option<u32>,
}

/// An event as it is sent.
#[derive(Serialize)]
struct EventJson {
    id: i64,
    #[serde(rename = "type")]
    event_type: String,
    room: String,
    /// The exact body of a webhook delivery, as text.
    payload: String,
}

/// The events that follow a position.
#[derive(Serialize)]
struct PageJson {
    events: Vec<EventJson>,
    position: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<&'static str>,
}

impl From<EventPage> for PageJson {
    fn from(page: EventPage) -> Self {
        let EventPage {
            events,
            position,
            gap,
        } = page;
        let to_json = |StoredEvent {
                           id,
                           event_type,
                           room,
                           payload,
                       }| EventJson {
            id,
            event_type,
            room,
            payload,
        };
        let gap = gap.map(|gap| match gap {
            EventGap::Deleted => "deleted",
            EventGap::Restored => "restored",
        });
        Self {
            events: events.into_iter().map(to_json).collect(),
            position,
            gap,
        }
    }
}

fn project(request: &HttpRequest) -> Result<ProjectId, ApiError> {
    let id = request.match_info().query("project").parse();
    id.map_err(|_| Problem::new(ErrorCode::NotFound, "no project by that id").into())
}

/// Responds with the events after a position, or without one with the newest position.
async fn events(state: Arc<AppState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let project = project(&request)?;
    let PositionQuery { after } = PositionQuery::from_query(request.query_string())?;
    let Some(after) = after else {
        let position = state.store.events().newest(project).await?;
        return Ok(respond(EventPage {
            events: Vec::new(),
            position,
            gap: None,
        }));
    };
    let Some(_place) = event_stream::place(&state) else {
        return Ok(event_stream::too_many(&state));
    };
    let _handling = Handling::begin(&request);
    // Before the first look, so that no event is committed between a look and the wait.
    let mut committed = state.admin.relay.watch();
    let news = async {
        loop {
            let page = state
                .store
                .events()
                .after(project.clone(), after.into(), PAGE)
                .await?;
            if has_news(&page, after.into()) || !next_of(&mut committed, &project).await {
                return Ok(page);
            }
        }
    };
    match timeout(LONGEST_WAIT, news).await {
        Ok(page) => page.map(respond),
        Err(_) => Ok(respond(EventPage {
            events: Vec::new(),
            position: after.into(),
            gap: None,
        })),
    }
}

fn has_news(page: &EventPage, after: i64) -> bool {
    page.gap.is_some() || page.position != after
}

/// Waits for an event of the project. Returns `false` when there will be none.
async fn next_of(committed: &mut Receiver<CommittedEvent>, project: &ProjectId) -> bool {
    loop {
        match committed.recv().await {
            Ok(event) if event.project_id == *project => return true,
            // One of those that were skipped may be of the project.
            Err(RecvError::Lagged(_)) => return true,
            Ok(_) => {}
            Err(RecvError::Closed) => return false,
        }
    }
}

fn respond(page: EventPage) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(PageJson::from(page))
}

/// Responds with the secret that signs the events of a project where they are forwarded.
async fn secret(state: Arc<AppState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let project = project(&request)?;
    state.store.events().newest(project.clone()).await?;
    let secret = state.keys.signing_secret(&project);
    Ok(HttpResponse::Ok()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(json!({"secret": secret.reveal()})))
}
