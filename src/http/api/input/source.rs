//! Where an operation's path and query parameters come from.

use std::borrow::Cow;

use actix_web::HttpRequest;
use percent_encoding::percent_decode_str;

/// The request for an operation, apart from its body.
pub enum RequestSource {
    /// A request of the API listener.
    Http {
        /// The request.
        request: HttpRequest,
        /// The path of its operation, with parameters in braces.
        pattern: &'static str,
    },
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
            Self::Http { request, pattern } => parameters(pattern, request)
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
            Self::Http { request, .. } => request.query_string(),
            Self::Console { query, .. } => query,
        }
    }

    /// Returns the HTTP request; `None` for a call of the console.
    pub const fn http(&self) -> Option<&HttpRequest> {
        match self {
            Self::Http { request, .. } => Some(request),
            Self::Console { .. } => None,
        }
    }
}

/// Returns the parameters in the path of a request for an operation with this path, by name, as they were sent.
fn parameters<'a>(
    pattern: &'static str,
    request: &'a HttpRequest,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let segments = request.match_info().as_str().split('/');
    let names = pattern.split('/').map(|part| {
        part.strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'))
    });
    names
        .zip(segments)
        .filter_map(|(name, segment)| Some((name?, segment)))
}

/// Returns a parameter in the path of a request for an operation with this path, as it was sent.
pub fn parameter<'a>(
    pattern: &'static str,
    request: &'a HttpRequest,
    name: &str,
) -> Option<&'a str> {
    parameters(pattern, request).find_map(|(found, raw)| (found == name).then_some(raw))
}

/// Decodes a raw path parameter.
pub fn decode_segment(raw: &str) -> Cow<'_, str> {
    percent_decode_str(raw).decode_utf8_lossy()
}
