//! Events as they happen.
//!
//! `/debug/projects/{project}/events` returns a project's events after a position, without gaps, for `conclave listen`. They are read
//! from the records, page by page. A request after the newest event waits for the next one (long polling), so a client in a loop
//! receives each event promptly and exactly once.
//!
//! `/debug/events` and the console's pages use server-sent events ([`open_stream`]) instead: they read nothing, and a slow client
//! misses events.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::ConnectionType;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::web::{self, Bytes};
use actix_web::{HttpRequest, HttpResponse};
use conclave_db::{CommittedEvent, EventGap, EventPage, StoredEvent};
use conclave_model::{ErrorCode, Problem, ProjectId, Timestamp};
use futures_util::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;
use utoipa::IntoParams;

use crate::http::api::error::ApiError;
use crate::http::api::input::FromQuery;
use crate::http::api::spec::Method;
use crate::http::listener::connections::Handling;
use crate::http::resource::single_method_resource;
use crate::http::state::AppState;

/// Maximum number of events per response.
// Bounds the memory of a response; a client with a backlog asks again at once.
const PAGE: u32 = 100;
/// Maximum time that a request waits for an event.
// Below the idle timeouts of common proxies, 30 s and more.
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

/// Position to read from.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct PositionQuery {
    /// The position of the client's last event
    after: Option<u64>,
    /// Instant to start at
    since: Option<Timestamp>,
}

/// Event on the wire.
#[derive(Serialize)]
struct EventJson {
    id: i64,
    #[serde(rename = "type")]
    event_type: String,
    room: String,
    /// Exact body of a webhook delivery, as text.
    payload: String,
}

/// Events after a position.
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
                           created_at: _,
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

/// Returns the project in a request's path.
///
/// # Errors
/// 404 for a malformed id.
pub(super) fn project(request: &HttpRequest) -> Result<ProjectId, ApiError> {
    let id = request.match_info().query("project").parse();
    id.map_err(|_| Problem::new(ErrorCode::NotFound, "no project by that id").into())
}

/// Responds with the events after a position. If none is given, responds with the position before the first event since an instant, or
/// with the newest position.
async fn events(state: Arc<AppState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let project = project(&request)?;
    let PositionQuery { after, since } = PositionQuery::from_query(request.query_string())?;
    let Some(after) = after else {
        // A new follower starts at the present, not at the oldest event.
        let position = match since {
            None => state.store.events().newest(project).await?,
            Some(since) => state.store.events().position_at(project, since).await?,
        };
        return Ok(respond(EventPage {
            events: Vec::new(),
            position,
            gap: None,
        }));
    };
    // Beyond the largest id, a position is after the newest event all the same.
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let Some(_place) = stream_permit(&state) else {
        return Ok(too_many_streams(&state));
    };
    let _handling = Handling::start(&request);
    // Subscribed before the first read, so that no event is committed unseen between the read and the wait.
    let mut committed = state.admin.relay.watch();
    let news = async {
        loop {
            let page = state
                .store
                .events()
                .after(project.clone(), after, PAGE)
                .await?;
            if has_news(&page, after) || !next_of(&mut committed, &project).await {
                return Ok(page);
            }
        }
    };
    match timeout(LONGEST_WAIT, news).await {
        Ok(page) => page.map(respond),
        // An empty page after the wait: the client repeats the request with the same position.
        Err(_) => Ok(respond(EventPage {
            events: Vec::new(),
            position: after,
            gap: None,
        })),
    }
}

fn has_news(page: &EventPage, after: i64) -> bool {
    page.gap.is_some() || page.position != after
}

/// Waits for an event of the project. Returns `false` if there will be no more.
async fn next_of(committed: &mut Receiver<CommittedEvent>, project: &ProjectId) -> bool {
    loop {
        match committed.recv().await {
            Ok(event) if event.project_id == *project => return true,
            // A skipped event may belong to the project, so it is read again.
            Err(RecvError::Lagged(_)) => return true,
            Ok(_) => {}
            Err(RecvError::Closed) => return false,
        }
    }
}

fn respond(page: EventPage) -> HttpResponse {
    HttpResponse::Ok()
        // A cached page would hide later events.
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(PageJson::from(page))
}

/// Responds with the secret that signs a project's forwarded events.
async fn secret(state: Arc<AppState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let project = project(&request)?;
    // Fails with 404 for an unknown project: a secret could be derived for any id.
    state.store.events().newest(project.clone()).await?;
    let secret = state.keys.signing_secret(&project);
    Ok(HttpResponse::Ok()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(json!({"secret": secret.reveal()})))
}

/// Maximum number of open event streams: a quarter of the admin listener's connections, so that health and pages keep the rest.
pub const MAX_STREAMS: usize = 256;
/// `Retry-After` if too many streams are open.
const STREAM_WAIT: Duration = Duration::from_secs(5);
/// Interval of comments on a silent stream. A closed connection is noticed only when something is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Responds with a stream of events. It opens with a comment, so that a client knows from when on it misses nothing. While it is open,
/// it counts towards [`MAX_STREAMS`] and is exempt from the timeout for idle connections.
pub fn open_stream(
    state: &AppState,
    request: &HttpRequest,
    events: impl Stream<Item = String> + 'static,
) -> HttpResponse {
    let Some(place) = stream_permit(state) else {
        return too_many_streams(state);
    };
    // Both are part of the stream, so they end with the response.
    let held = (place, Handling::start(request));
    let opening = stream::once(async { Bytes::from_static(b": watching\n\n") });
    let kept_alive = stream::unfold((Box::pin(events), held), async |(mut events, held)| {
        let next = match timeout(KEEP_ALIVE, events.next()).await {
            Ok(event) => event?.into(),
            Err(_) => Bytes::from_static(b": alive\n\n"),
        };
        Some((next, (events, held)))
    });
    let body = opening.chain(kept_alive).map(Ok::<_, actix_web::Error>);
    HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header((CACHE_CONTROL, "no-store"))
        .streaming(body)
}

/// Acquires a permit for a stream; `None` if [`MAX_STREAMS`] are open.
fn stream_permit(state: &AppState) -> Option<OwnedSemaphorePermit> {
    Arc::clone(&state.admin.event_streams)
        .try_acquire_owned()
        .ok()
}

/// Refuses a stream beyond [`MAX_STREAMS`] and closes the connection, which would otherwise occupy a connection slot.
fn too_many_streams(state: &AppState) -> HttpResponse {
    // Counted with refused requests, so that operators see which limit was reached.
    state
        .metrics
        .requests_refused
        .with_label_values(&["event_streams"])
        .inc();
    let message = format!("at most {MAX_STREAMS} event streams can be open");
    let problem = Problem::new(ErrorCode::RateLimited, message).after(STREAM_WAIT);
    let mut response = ApiError::from(problem).to_http();
    response
        .head_mut()
        .set_connection_type(ConnectionType::Close);
    response
}
