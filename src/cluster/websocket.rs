//! Forwarded WebSocket: bytes in both directions, until one side closes it or another node is active.

use std::io;

use actix_http::ResponseHead;
use actix_web::body::{BodyStream, BoxBody};
use actix_web::dev::Payload;
use actix_web::http::ConnectionType;
use actix_web::http::header::{HeaderValue, UPGRADE};
use actix_web::rt::spawn;
use actix_web::web::{Bytes, BytesMut};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::future::LocalBoxFuture;
use futures_util::{Stream, StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};

use super::connection::Io;
use super::response;
use crate::http::listener::connections::Handling;

/// Read buffer, in bytes.
const CHUNK: usize = 16 * 1024;

/// Resolves when the WebSocket has to close.
pub(super) type CloseSignal = LocalBoxFuture<'static, ()>;

/// Returns the response that opens the WebSocket for the client. `begun` has the bytes that the node has already sent.
pub(super) fn open(
    head: &ResponseHead,
    (node, begun): (Box<dyn Io>, BytesMut),
    request: &HttpRequest,
    payload: Payload,
    ends: [CloseSignal; 2],
) -> HttpResponse {
    // Driven independently, so a slow reader in one direction does not stop the other.
    let (from_node, to_node) = split(node);
    let [send_close, receive_close] = ends;
    spawn(send(payload, to_node, send_close));
    let mut http = response::head(head);
    http.headers_mut()
        .insert(UPGRADE, HeaderValue::from_static("websocket"));
    http.head_mut().set_connection_type(ConnectionType::Upgrade);
    // While the WebSocket is open, the client does not count as idle.
    let handling = Handling::start(request);
    let begun = stream::iter((!begun.is_empty()).then(|| Ok(begun.freeze())));
    let received = begun.chain(Box::pin(received(from_node, handling, receive_close)));
    http.set_body(BoxBody::new(BodyStream::new(received)))
}

/// Forwards the client's bytes to their end, which may be its `leave`.
async fn send(mut payload: Payload, mut to_node: WriteHalf<Box<dyn Io>>, end: CloseSignal) {
    let sending = async {
        while let Some(Ok(chunk)) = payload.next().await {
            if to_node.write_all(&chunk).await.is_err() {
                return;
            }
        }
    };
    // Dropping the write on a takeover may cut off a frame: the node that would read it is no longer the active one.
    tokio::select! {
        () = sending => {}
        () = end => {}
    }
    // If that fails, the node has closed the connection already.
    let _ = to_node.shutdown().await;
}

fn received(
    from_node: ReadHalf<Box<dyn Io>>,
    handling: Option<Handling>,
    end: CloseSignal,
) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(
        (from_node, handling, end),
        async |(mut from_node, handling, mut end)| {
            let mut chunk = Vec::with_capacity(CHUNK);
            let read = tokio::select! {
                read = from_node.read_buf(&mut chunk) => read,
                () = &mut end => Ok(0),
            };
            match read {
                // Ends the client's stream, and thereby the connection.
                Ok(0) => None,
                Ok(_) => Some((Ok(chunk.into()), (from_node, handling, end))),
                Err(error) => Some((
                    Err(error),
                    (
                        from_node,
                        handling,
                        Box::pin(std::future::ready(())) as CloseSignal,
                    ),
                )),
            }
        },
    )
}
