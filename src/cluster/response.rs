//! The active node's response, on its way to the client.
//!
//! A response is collected before it is forwarded, so that the request can be repeated if the node dies meanwhile. A longer one is
//! forwarded as it arrives.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;

use actix_http::ResponseHead;
use actix_web::body::{BodyStream, BoxBody, SizedStream};
use actix_web::http::StatusCode;
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse};
use futures_util::{Stream, StreamExt, stream};

use super::connection::{Incoming, Pool};
use super::forwarding::AttemptFailure;
use super::headers;
use crate::http::listener::connections::Handling;

/// Maximum length for collecting a body, in bytes.
const MOST_COLLECTED: usize = 256 * 1024;

/// Received body, or its first part.
pub(super) struct Received {
    pub(super) begun: Bytes,
    /// Whether it is the whole body.
    pub(super) is_whole: bool,
}

/// Receives a body, or the first part of a body that is too long to be collected.
///
/// # Errors
/// If the connection broke before the end of the body.
pub(super) async fn receive(
    head: &ResponseHead,
    incoming: &mut Incoming,
) -> Result<Received, AttemptFailure> {
    // Collecting a part of a body that is known to be too long would only delay it.
    if length(head).is_some_and(|length| length > MOST_COLLECTED as u64) {
        return Ok(Received {
            begun: Bytes::new(),
            is_whole: false,
        });
    }
    let (mut chunks, mut collected, mut is_whole) = (Vec::new(), 0, false);
    // The body's length may be unknown, so it is also counted.
    while !is_whole && collected <= MOST_COLLECTED {
        match incoming.chunk().await.map_err(|_| AttemptFailure::Broken)? {
            Some(chunk) => {
                collected += chunk.len();
                chunks.push(chunk);
            }
            None => is_whole = true,
        }
    }
    Ok(Received {
        begun: joined(chunks),
        is_whole,
    })
}

/// Joins chunks. Most bodies arrive as one, which is not copied.
fn joined(mut chunks: Vec<Bytes>) -> Bytes {
    if chunks.len() == 1 {
        chunks.remove(0)
    } else {
        chunks.concat().into()
    }
}

/// Returns the response without its body.
pub(super) fn head(head: &ResponseHead) -> HttpResponse {
    let mut http = HttpResponse::with_body(head.status, BoxBody::new(()));
    for (name, value) in headers::for_response(&head.headers) {
        http.headers_mut().append(name, value);
    }
    http
}

/// Returns the response with the whole body.
pub(super) fn whole(
    received_head: &ResponseHead,
    body: Bytes,
    asks_for_head: bool,
) -> HttpResponse {
    let http = head(received_head);
    match length(received_head).filter(|_| asks_for_head) {
        Some(length) => {
            // The length that a GET would return. The empty body must not replace it.
            let nothing = stream::empty::<Result<Bytes, Infallible>>();
            http.set_body(BoxBody::new(SizedStream::new(length, nothing)))
        }
        None if asks_for_head
            || matches!(
                http.status(),
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
            ) =>
        {
            http
        }
        None => http.set_body(BoxBody::new(body)),
    }
}

/// Returns the response with a body that is still arriving. `keeper` gets the connection at the end, if it can be used again.
pub(super) fn streamed(
    received_head: &ResponseHead,
    begun: Bytes,
    rest: Incoming,
    request: &HttpRequest,
    keeper: Option<Rc<Pool>>,
) -> HttpResponse {
    let chunks = stream::iter((!begun.is_empty()).then_some(Ok(begun)))
        .chain(Box::pin(chunks(rest, request, keeper)));
    match length(received_head) {
        Some(length) => {
            head(received_head).set_body(BoxBody::new(SizedStream::new(length, chunks)))
        }
        // Chunked, as the node sent it.
        None => head(received_head).set_body(BoxBody::new(BodyStream::new(chunks))),
    }
}

fn chunks(
    rest: Incoming,
    request: &HttpRequest,
    keeper: Option<Rc<Pool>>,
) -> impl Stream<Item = io::Result<Bytes>> + use<> {
    // While more of the body is expected, the client does not count as idle.
    let handling = Handling::start(request);
    stream::unfold(
        (rest, keeper, handling),
        async |(mut rest, keeper, handling)| match rest.chunk().await {
            Ok(Some(chunk)) => Some((Ok(chunk), (rest, keeper, handling))),
            Ok(None) => {
                // Only after the body's end: the node's next bytes on the connection then belong to another response.
                keeper
                    .iter()
                    .zip(rest.into_connection())
                    .for_each(|(keeper, connection)| keeper.put(connection));
                None
            }
            Err(error) => Some((Err(error), (rest, None, handling))),
        },
    )
}

fn length(head: &ResponseHead) -> Option<u64> {
    head.headers
        .get(CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}
