//! Ways of failing.

use std::time::Duration;

/// The name under which a fault of every method is kept.
pub(crate) const EVERY: &str = "*";

/// What a method does instead of answering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No node serves the request: Twirp's `unavailable`.
    NoResponse,
    /// Some other Twirp error.
    Twirp(u16, &'static str, &'static str),
    /// A 401 in plain text, as LiveKit gives for a bad token.
    PlainUnauthorized,
    /// A proxy's page with this status.
    ProxyPage(u16),
    /// Any answer: status, content type, body.
    Answer(u16, &'static str, &'static str),
    /// Does what it is asked, and answers after this long.
    Slow(Duration),
    /// Does what it is asked, and closes the connection without an answer.
    Dropped,
}

/// An answer over HTTP.
pub(crate) struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn protobuf(message: &impl prost::Message) -> Self {
        Self { status: 200, kind: "application/protobuf", body: message.encode_to_vec() }
    }

    pub fn text(status: u16, kind: &'static str, body: &str) -> Self {
        Self { status, kind, body: body.as_bytes().to_vec() }
    }

    pub fn twirp(status: u16, code: &str, msg: &str) -> Self {
        Self::text(status, "application/json", &serde_json::json!({"code": code, "msg": msg}).to_string())
    }

    pub fn not_found(msg: &str) -> Self {
        Self::twirp(404, "not_found", msg)
    }

    pub fn no_response() -> Self {
        Self::twirp(503, "unavailable", "no response from servers")
    }
}

impl Fault {
    /// What is answered at once; `None` when the method does its work first.
    pub(crate) fn answer(&self) -> Option<Answer> {
        Some(match self {
            Self::NoResponse => Answer::no_response(),
            Self::Twirp(status, code, msg) => Answer::twirp(*status, code, msg),
            Self::PlainUnauthorized => Answer::text(401, "text/plain; charset=utf-8", "invalid token\n"),
            Self::ProxyPage(status) => Answer::text(
                *status,
                "text/html",
                "<html><body><h1>Bad Gateway</h1>a secret of the proxy</body></html>",
            ),
            Self::Answer(status, kind, body) => Answer::text(*status, kind, body),
            Self::Slow(_) | Self::Dropped => return None,
        })
    }
}
