//! Server-sent events.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tokio::time::timeout;

/// How long a stream is silent before it sends a comment: a client that has gone is noticed when something is sent to it.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Returns the response with a stream of events. A comment opens it, so that a client knows from when on it sees everything.
pub fn response(events: impl Stream<Item = String> + 'static) -> HttpResponse {
    let opening = stream::once(async { Bytes::from_static(b": watching\n\n") });
    let kept_alive = stream::unfold(Box::pin(events), async |mut events| {
        let next = match timeout(KEEP_ALIVE, events.next()).await {
            Ok(event) => event?.into(),
            Err(_) => Bytes::from_static(b": alive\n\n"),
        };
        Some((next, events))
    });
    let body = opening.chain(kept_alive).map(Ok::<_, actix_web::Error>);
    HttpResponse::Ok().content_type("text/event-stream").insert_header((CACHE_CONTROL, "no-store")).streaming(body)
}
