//! Server-sent events, on the admin listener.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::ConnectionType;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse};
use conclave_model::{ErrorCode, Problem};
use futures_util::{Stream, StreamExt, stream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::http::api::error::ApiError;
use crate::http::listener::activity::Handling;
use crate::http::state::AppState;

/// The most streams of events, a quarter of the connections of the admin listener: health and the rest have the others.
pub const MOST_STREAMS: usize = 256;
/// When it is worth another try to open a stream.
const STREAM_WAIT: Duration = Duration::from_secs(5);
/// How long a stream is silent before it sends a comment: a client that has gone is noticed when something is sent to it.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Returns the response with a stream of events. A comment opens it, so that a client knows from when on it sees everything. While it
/// is open, it is one of [`MOST_STREAMS`], and may be silent for any time.
pub fn open(
    state: &AppState,
    request: &HttpRequest,
    events: impl Stream<Item = String> + 'static,
) -> HttpResponse {
    let Some(place) = place(state) else {
        return too_many(state);
    };
    let held = (place, Handling::begin(request));
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

/// Takes one of the [`MOST_STREAMS`] places; `None` if there is none left.
pub fn place(state: &AppState) -> Option<OwnedSemaphorePermit> {
    Arc::clone(&state.admin.event_streams)
        .try_acquire_owned()
        .ok()
}

/// Refuses a stream beyond [`MOST_STREAMS`]. Its connection is closed: kept, it would take the place of another one.
pub fn too_many(state: &AppState) -> HttpResponse {
    state
        .metrics
        .requests_refused
        .with_label_values(&["event_streams"])
        .inc();
    let message = format!("{MOST_STREAMS} streams of events are open, as many as may be");
    let problem = Problem::new(ErrorCode::RateLimited, message).after(STREAM_WAIT);
    let mut response = ApiError::from(problem).to_http();
    response
        .head_mut()
        .set_connection_type(ConnectionType::Close);
    response
}
