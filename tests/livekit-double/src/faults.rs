//! Faults, and the responses of faults and of the API.

use std::time::Duration;

use test_http_server::Response;

/// Method name for a fault in every method.
pub(crate) const EVERY: &str = "*";

/// A method's behaviour instead of its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No node serves the request: Twirp's `unavailable`.
    NoResponse,
    /// A Twirp error: status, code, message.
    Twirp(u16, &'static str, &'static str),
    /// A 401 in plain text, as LiveKit responds to an invalid token.
    PlainUnauthorized,
    /// A proxy's HTML page with this status.
    ProxyPage(u16),
    /// Any response: status, content type, body.
    Answer(u16, &'static str, &'static str),
    /// Performs the call, and responds after this long.
    Slow(Duration),
    /// Performs the call, and closes the connection without a response.
    Dropped,
}

/// Returns a response with this content type and body.
pub(crate) fn text(status: u16, content_type: &str, body: &str) -> Response {
    Response::new(status)
        .header("Content-Type", content_type)
        .body(body)
}

pub(crate) fn protobuf(message: &impl prost::Message) -> Response {
    Response::new(200)
        .header("Content-Type", "application/protobuf")
        .body(message.encode_to_vec())
}

/// Returns a Twirp error.
pub(crate) fn twirp(status: u16, code: &str, msg: &str) -> Response {
    text(
        status,
        "application/json",
        &serde_json::json!({"code": code, "msg": msg}).to_string(),
    )
}

pub(crate) fn not_found(msg: &str) -> Response {
    twirp(404, "not_found", msg)
}

pub(crate) fn no_response() -> Response {
    twirp(503, "unavailable", "no response from servers")
}

impl Fault {
    /// Returns the response instead of the call; `None` if the call is performed first.
    pub(crate) fn answer(&self) -> Option<Response> {
        Some(match self {
            Self::NoResponse => no_response(),
            Self::Twirp(status, code, msg) => twirp(*status, code, msg),
            Self::PlainUnauthorized => text(401, "text/plain; charset=utf-8", "invalid token\n"),
            Self::ProxyPage(status) => text(
                *status,
                "text/html",
                "<html><body><h1>Bad Gateway</h1>a secret of the proxy</body></html>",
            ),
            Self::Answer(status, kind, body) => text(*status, kind, body),
            Self::Slow(_) | Self::Dropped => return None,
        })
    }
}
