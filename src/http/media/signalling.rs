//! `/rtc`: signalling for WebRTC clients in LiveKit's protocol, outside the API's frame.
//!
//! A client is admitted before its WebSocket is opened, so a refusal is an HTTP status with plain text. Browsers hide the status of a
//! failed upgrade from scripts, so the client SDK then requests `validate`, which repeats it. Pages of any origin may read every
//! response: the token is sent on purpose, and no cookie is used. The token is in the URL, which is therefore in no log and no
//! message.
//!
//! The WebSocket of an admitted client carries frames to its session and back. No frame that has arrived is lost, whatever ends the
//! WebSocket: the last one may be the client's `leave`. Messages may arrive in [`Fragments`].

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    AUTHORIZATION, ContentType, HeaderValue, USER_AGENT,
};
use actix_web::web::{self, Bytes, Payload};
use actix_web::{HttpRequest, HttpResponse};
use actix_ws::{
    CloseCode, CloseReason, Closed, Item, Message, MessageStream, ProtocolError, Session,
};
use conclave_media::embedded::rtc::ConnectionMode;
use conclave_media::embedded::{
    ConnectRequest, EmbeddedPlane, FrameSender, Refusal, Replies, SignalConnection, SignalFrame,
};
use futures_util::FutureExt;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::http::api::error::{ApiError, DatabaseFailed};
use crate::http::frame::limits::FixedLimits;
use crate::http::listener::connections::Handling;
use crate::http::listener::request_boundary::opens_websocket;
use crate::http::listener::trace::asks_for_head;
use crate::http::resource::{fixed_handler, no_such_route};
use crate::http::state::AppState;

/// Label in the metrics.
const OPERATION: &str = "signalling";
/// Paths, with the number of peer connections for clients that send no join request.
// LiveKit's newer SDKs request `/rtc/v1`, and `/rtc` after a 404 there.
const PATHS: [(&str, &str, ConnectionMode); 2] = [
    ("/rtc", "/rtc/validate", ConnectionMode::Dual),
    ("/rtc/v1", "/rtc/v1/validate", ConnectionMode::Single),
];

/// Routes the WebSocket, its dry run, and the probe that clients send when a network returns.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>, plane: &EmbeddedPlane) {
    for (connect_path, validate_path, mode) in PATHS {
        let (shared_state, shared_plane) = (Arc::clone(state), plane.clone());
        let connecting = web::get().to(move |request: HttpRequest, payload: Payload| {
            let (state, plane) = (Arc::clone(&shared_state), shared_plane.clone());
            async move {
                counted(
                    &state,
                    &request,
                    connect(&state, &plane, mode, &request, payload),
                )
                .await
            }
        });
        let (shared_state, shared_plane) = (Arc::clone(state), plane.clone());
        let validating = web::get().to(move |request: HttpRequest| {
            let (state, plane) = (Arc::clone(&shared_state), shared_plane.clone());
            async move { counted(&state, &request, validate(&state, &plane, mode, &request)).await }
        });
        let fixed = &state.checks.fixed;
        config
            .service(resource(connect_path, connecting, fixed))
            .service(resource(validate_path, validating, fixed));
    }
    let probe = fixed_handler(&state.checks.fixed, |request| {
        let is_probe = asks_for_head(request);
        any_origin(if is_probe {
            HttpResponse::Ok().finish()
        } else {
            ApiError::from(no_such_route()).to_http()
        })
    });
    // LiveKit's client SDK sends a HEAD to the server's root to find out whether the network is back.
    config.service(web::resource("/").default_service(web::to(probe)));
}

fn resource(path: &str, route: actix_web::Route, limits: &Arc<FixedLimits>) -> actix_web::Resource {
    let other = fixed_handler(limits, |_| {
        plain(StatusCode::METHOD_NOT_ALLOWED, "this path takes GET")
    });
    web::resource(path)
        .route(route)
        .route(
            web::method(actix_web::http::Method::OPTIONS)
                .to(fixed_handler(limits, |_| preflight())),
        )
        .default_service(web::to(other))
}

/// Counts a request by the client's address, and handles it if the address is within its rate.
async fn counted(
    state: &AppState,
    request: &HttpRequest,
    handled: impl Future<Output = HttpResponse>,
) -> HttpResponse {
    let timed = state.metrics.time(OPERATION);
    // Before the token is verified, because verification costs a signature and a look-up.
    let response = match state.checks.limits.check_signalling(request) {
        Ok(()) => handled.await,
        Err(problem) => ApiError::from(problem).to_http(),
    };
    let response = any_origin(response);
    timed.answered(response.status());
    response
}

/// Admits a client and opens its WebSocket.
async fn connect(
    state: &AppState,
    plane: &EmbeddedPlane,
    mode: ConnectionMode,
    request: &HttpRequest,
    payload: Payload,
) -> HttpResponse {
    if !opens_websocket(request) {
        return plain(
            StatusCode::NOT_FOUND,
            "this path accepts only WebSocket connections",
        );
    }
    let admitted = async { plane.connect(connect_request(state, mode, request)?).await };
    match admitted.await {
        Ok(connection) => open(request, payload, connection),
        Err(refusal) => refused(&refusal),
    }
}

/// Repeats the result of [`connect`] without joining.
async fn validate(
    state: &AppState,
    plane: &EmbeddedPlane,
    mode: ConnectionMode,
    request: &HttpRequest,
) -> HttpResponse {
    let validated = async {
        plane
            .validate(&connect_request(state, mode, request)?)
            .await
    };
    match validated.await {
        // The word that LiveKit's server sends.
        Ok(()) => plain(StatusCode::OK, "success"),
        Err(refusal) => refused(&refusal),
    }
}

/// Parses a request's token. The other parameters are parsed after the token is verified.
fn connect_request(
    state: &AppState,
    mode: ConnectionMode,
    request: &HttpRequest,
) -> Result<ConnectRequest, Refusal> {
    let header = |name| {
        request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let read = ConnectRequest::new(mode, request.query_string(), header(AUTHORIZATION))
        .map_err(Refusal::from)?;
    let read = read.with_user_agent(header(USER_AGENT));
    Ok(read.with_address(state.checks.limits.client_address(request)))
}

/// Allows pages from any origin to read a response.
pub fn any_origin(mut response: HttpResponse) -> HttpResponse {
    response
        .headers_mut()
        .insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// Returns a plain-text response.
fn plain(status: StatusCode, text: impl Into<String>) -> HttpResponse {
    any_origin(
        HttpResponse::build(status)
            .content_type(ContentType::plaintext())
            .body(text.into()),
    )
}

/// Returns the response to a client that may not join.
fn refused(refusal: &Refusal) -> HttpResponse {
    let status = match refusal {
        Refusal::BadRequest(_) => StatusCode::BAD_REQUEST,
        Refusal::Unauthorized(_) => StatusCode::UNAUTHORIZED,
        // For an SDK, a 404 means an older server without this path, unless its text names the missing room.
        Refusal::NoRoom => StatusCode::NOT_FOUND,
        Refusal::Forbidden(_) => StatusCode::FORBIDDEN,
        Refusal::TooMuch(_) => StatusCode::TOO_MANY_REQUESTS,
        Refusal::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = plain(status, refusal.to_string());
    if *refusal == Refusal::Unavailable {
        // For the cluster's proxy: another node may succeed.
        response.extensions_mut().insert(DatabaseFailed);
    }
    response
}

/// Responds to a preflight: a bearer token may be sent.
fn preflight() -> HttpResponse {
    let mut response = any_origin(HttpResponse::NoContent().finish());
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD"),
    );
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("Authorization"),
    );
    response
}

/// Maximum size for a client's frames and messages, in bytes.
const MAX_MESSAGE: usize = 2 * 1024 * 1024;
/// Interval of pings, which detect a dead connection. A pong is the only sign of life from some clients: LiveKit's Go SDK sends no
/// pings of its own.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Time limit for a client to accept a frame.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the WebSocket and forwards its frames in a task.
fn open(request: &HttpRequest, payload: Payload, connection: SignalConnection) -> HttpResponse {
    let (response, session, stream) = match actix_ws::handle(request, payload) {
        Ok(opened) => opened,
        // Dropping the connection reports to the session that its participant has lost its signalling.
        Err(error) => return error.error_response(),
    };
    // The default of 64 KiB would be too small for an offer with many tracks.
    let stream = stream.max_frame_size(MAX_MESSAGE);
    // While the WebSocket is open, the connection has no idle timeout; pings detect a dead client.
    let handling = Handling::start(request);
    actix_web::rt::spawn(async move {
        let _handling = handling;
        forward_frames(connection, session, stream).await;
    });
    response
}

/// Forwards frames until one side ends, then closes the WebSocket. By then all frames for the client were sent, unless it closed the
/// WebSocket.
async fn forward_frames(
    connection: SignalConnection,
    mut session: Session,
    mut stream: MessageStream,
) {
    let SignalConnection {
        frames,
        mut replies,
    } = connection;
    let mut incoming = Incoming {
        frames,
        fragments: Fragments::new(MAX_MESSAGE),
    };
    let end = forward_until_end(&mut incoming, &mut replies, &mut session, &mut stream).await;
    // A broken connection can still have frames that arrived before, such as a `leave`.
    if end != ForwardingEnd::Closed {
        forward_buffered(&mut incoming, &mut stream).await;
    }
    // The session may have ended; its last frames are still in the channel.
    while let Some(reply) = replies.try_recv() {
        if write(&mut session, reply).await.is_err() {
            break;
        }
    }
    // The client may be gone, so neither a timeout nor an error matters.
    let _ = timeout(
        WRITE_TIMEOUT,
        session.close(Some(close_reason(end, &replies))),
    )
    .await;
}

/// Why forwarding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForwardingEnd {
    /// The client closed the WebSocket: nothing follows.
    Closed,
    /// A frame or message exceeds the maximum size.
    TooLarge,
    /// The session or the connection ended, or the client is too slow.
    Other,
}

impl From<FragmentError> for ForwardingEnd {
    fn from(error: FragmentError) -> Self {
        match error {
            FragmentError::TooLarge => Self::TooLarge,
            FragmentError::NotUtf8 => Self::Other,
        }
    }
}

async fn forward_until_end(
    incoming: &mut Incoming,
    replies: &mut Replies,
    session: &mut Session,
    stream: &mut MessageStream,
) -> ForwardingEnd {
    let mut pings = interval(PING_INTERVAL);
    // After a delay, one ping suffices; the default would send the missed ones in a burst.
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Not biased: neither direction can starve the other.
        let forwarded = tokio::select! {
            reply = replies.recv() => match reply {
                Some(reply) => write(session, reply).await,
                // The session has ended and has sent its last frame.
                None => Err(ForwardingEnd::Other),
            },
            message = stream.recv() => match message {
                Some(Ok(message)) => {
                    // actix-ws leaves the response to a ping to the application.
                    let pong = if let Message::Ping(data) = &message { in_time(session.pong(data)).await } else { Ok(()) };
                    incoming.forward(message).await.and(pong)
                }
                Some(Err(ProtocolError::Overflow)) => Err(ForwardingEnd::TooLarge),
                Some(Err(_)) | None => Err(ForwardingEnd::Other),
            },
            // An empty payload is enough: only the pong counts.
            _ = pings.tick() => in_time(session.ping(b"")).await,
        };
        if let Err(end) = forwarded {
            return end;
        }
    }
}

/// Forwards the frames that have arrived, without waiting for more. After an I/O error, the stream still returns frames that arrived
/// before.
async fn forward_buffered(incoming: &mut Incoming, stream: &mut MessageStream) {
    let mut is_broken = false;
    loop {
        match stream.recv().now_or_never().flatten() {
            Some(Ok(message)) => {
                if incoming.forward(message).await.is_err() {
                    return;
                }
            }
            // Once: the second error means that nothing is left.
            Some(Err(ProtocolError::Io(_))) if !is_broken => is_broken = true,
            Some(Err(_)) | None => return,
        }
    }
}

/// Client frames on their way to the session.
struct Incoming {
    frames: FrameSender,
    fragments: Fragments,
}

impl Incoming {
    /// Forwards a frame. The session gets every one, even without a request in it: all count towards the client's limits.
    async fn forward(&mut self, message: Message) -> Result<(), ForwardingEnd> {
        let frame = match message {
            Message::Binary(frame) => SignalFrame::Binary(frame.to_vec()),
            Message::Text(frame) => SignalFrame::Text(frame.to_string()),
            Message::Continuation(item) => self
                .fragments
                .add(item)
                .map_err(ForwardingEnd::from)?
                .unwrap_or_else(SignalFrame::sign_of_life),
            Message::Pong(_) | Message::Ping(_) | Message::Nop => SignalFrame::sign_of_life(),
            Message::Close(_) => return Err(ForwardingEnd::Closed),
        };
        self.frames
            .send(frame)
            .await
            .map_err(|_| ForwardingEnd::Other)
    }
}

fn close_reason(end: ForwardingEnd, replies: &Replies) -> CloseReason {
    match replies.excess() {
        // 1008 (RFC 6455, section 7.4.1): the client has exceeded a budget.
        Some(excess) => CloseReason {
            code: CloseCode::Policy,
            description: Some(excess.to_string()),
        },
        // 1009 of the same section.
        None if end == ForwardingEnd::TooLarge => CloseReason::from(CloseCode::Size),
        None => CloseReason::from(CloseCode::Normal),
    }
}

async fn write(session: &mut Session, frame: SignalFrame) -> Result<(), ForwardingEnd> {
    match frame {
        SignalFrame::Binary(bytes) => in_time(session.binary(bytes)).await,
        SignalFrame::Text(text) => in_time(session.text(text)).await,
    }
}

// A client that accepts no frame for this long blocks its session, so the WebSocket is closed.
async fn in_time(written: impl Future<Output = Result<(), Closed>>) -> Result<(), ForwardingEnd> {
    timeout(WRITE_TIMEOUT, written)
        .await
        .map_err(|_| ForwardingEnd::Other)?
        .map_err(|_| ForwardingEnd::Other)
}

/// Joined fragments of an incomplete message. Many small ones take no more memory than their bytes.
#[derive(Debug)]
struct Fragments {
    joined: Vec<u8>,
    is_text: bool,
    max_bytes: usize,
}

/// Error in fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FragmentError {
    /// Larger than the maximum.
    TooLarge,
    /// Text that is not UTF-8.
    NotUtf8,
}

impl Fragments {
    /// Creates an empty message with this maximum size.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            joined: Vec::new(),
            is_text: false,
            max_bytes,
        }
    }

    /// Adds a fragment, and returns the message if it was the last one.
    pub fn add(&mut self, item: Item) -> Result<Option<SignalFrame>, FragmentError> {
        let (bytes, is_last) = match item {
            Item::FirstText(bytes) => (self.start(true, bytes), false),
            Item::FirstBinary(bytes) => (self.start(false, bytes), false),
            Item::Continue(bytes) => (bytes, false),
            Item::Last(bytes) => (bytes, true),
        };
        // Before copying, so that memory never exceeds the limit.
        if self.joined.len() + bytes.len() > self.max_bytes {
            return Err(FragmentError::TooLarge);
        }
        self.joined.extend_from_slice(&bytes);
        if is_last {
            self.complete().map(Some)
        } else {
            Ok(None)
        }
    }

    fn start(&mut self, is_text: bool, bytes: Bytes) -> Bytes {
        // A new first fragment abandons an unfinished message.
        self.joined.clear();
        self.is_text = is_text;
        bytes
    }

    fn complete(&mut self) -> Result<SignalFrame, FragmentError> {
        let joined = std::mem::take(&mut self.joined);
        match self.is_text {
            // Checked once at the end: a character may be split between fragments (RFC 6455, section 5.6).
            true => String::from_utf8(joined)
                .map(SignalFrame::Text)
                .map_err(|_| FragmentError::NotUtf8),
            false => Ok(SignalFrame::Binary(joined)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_joined_to_a_message_of_bounded_size() {
        let mut fragments = Fragments::new(6);
        assert!(
            fragments
                .add(Item::FirstBinary("ab".into()))
                .unwrap()
                .is_none()
        );
        assert!(
            fragments
                .add(Item::Continue("cd".into()))
                .unwrap()
                .is_none()
        );
        let message = fragments.add(Item::Last("ef".into())).unwrap().unwrap();
        assert_eq!(message, SignalFrame::Binary(b"abcdef".to_vec()));

        fragments.add(Item::FirstText("abcd".into())).unwrap();
        assert_eq!(
            fragments.add(Item::Last("ef".into())).unwrap(),
            Some(SignalFrame::Text("abcdef".into()))
        );
        fragments.add(Item::FirstText("abcd".into())).unwrap();
        assert_eq!(
            fragments.add(Item::Continue("efg".into())),
            Err(FragmentError::TooLarge)
        );
    }

    #[test]
    fn a_text_that_is_not_utf_8_is_refused() {
        let mut fragments = Fragments::new(6);
        fragments
            .add(Item::FirstText(Bytes::from_static(&[0xff])))
            .unwrap();
        assert_eq!(
            fragments.add(Item::Last(Bytes::new())),
            Err(FragmentError::NotUtf8)
        );
    }
}
