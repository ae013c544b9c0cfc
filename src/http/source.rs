//! Where an operation's path and query parameters come from.

use std::borrow::Cow;

use actix_web::HttpRequest;
use percent_encoding::percent_decode_str;

/// The request for an operation, apart from its body.
pub enum RequestSource {
    /// A routed request of the API listener.
    Http(HttpRequest),
    /// A call of the console, which names the parameters.
    Console {
        /// The path parameters by name.
        path: Vec<(&'static str, String)>,
        /// The query string.
        query: String,
        /// The websocket url by which the operator's browser reaches the media plane, if that depends on it.
        media_url: Option<String>,
    },
}

impl RequestSource {
    /// Returns the path parameters, decoded, by name.
    pub fn path_parameters(&self) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        match self {
            Self::Http(request) => request
                .match_info()
                .iter()
                .map(|(name, raw)| (name.into(), decode_segment(raw)))
                .collect(),
            Self::Console { path, .. } => path
                .iter()
                .map(|(name, value)| ((*name).into(), value.as_str().into()))
                .collect(),
        }
    }

    /// Returns the query string.
    pub fn query_string(&self) -> &str {
        match self {
            Self::Http(request) => request.query_string(),
            Self::Console { query, .. } => query,
        }
    }

    /// Returns the HTTP request; `None` for a call of the console.
    pub const fn http(&self) -> Option<&HttpRequest> {
        match self {
            Self::Http(request) => Some(request),
            Self::Console { .. } => None,
        }
    }
}

/// Decodes a raw path parameter.
pub fn decode_segment(raw: &str) -> Cow<'_, str> {
    percent_decode_str(raw).decode_utf8_lossy()
}
