//! A forwarded request without its body.

use actix_http::{ConnectionType, RequestHead};
use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use actix_web::http::{Method, Uri};
use conclave_model::{ErrorCode, Problem};

use super::forwarding::Repeat;
use super::headers;
use crate::http::api::routes::find_route;
use crate::http::frame::idempotency::KEY;
use crate::http::listener::client_address::TrustedProxies;
use crate::http::listener::request_boundary::opens_websocket;
use crate::http::listener::trace::sent_method;
use crate::http::resource::no_such_route;

/// A forwarded request's head.
pub(super) struct Head {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// Whether it may be sent again.
    pub(super) repeat: Repeat,
    pub(super) opens_websocket: bool,
}

impl Head {
    /// Returns the head to send in place of a request's own.
    ///
    /// # Errors
    /// For requests that the active node would refuse, too: `CONNECT`, and a body with two lengths.
    pub(super) fn new(request: &HttpRequest, proxies: &TrustedProxies) -> Result<Self, Problem> {
        // Two lengths allow request smuggling: the nodes could disagree on where the body ends (RFC 9112, section 6.1).
        if request.headers().contains_key(CONTENT_LENGTH)
            && request.headers().contains_key(TRANSFER_ENCODING)
        {
            return Err(refused(
                "a body must not have both Content-Length and Transfer-Encoding",
            ));
        }
        let method = sent_method(request);
        // The listener is no forward proxy.
        if method == Method::CONNECT {
            return Err(no_such_route());
        }
        let headers = headers::for_request(request, proxies);
        let uri = request.uri().clone();
        let repeat = repeat(&method, uri.path(), &headers);
        Ok(Self {
            method,
            uri,
            headers,
            repeat,
            opens_websocket: opens_websocket(request),
        })
    }

    /// Returns whether the response has no body, whatever its headers say.
    pub(super) fn asks_for_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// Returns the head for the node with this epoch.
    pub(super) fn to_node(&self, epoch: i64) -> RequestHead {
        let mut head = RequestHead::default();
        head.method = self.method.clone();
        head.uri = self.uri.clone();
        head.headers = self.headers.clone();
        headers::mark(&mut head.headers, epoch);
        // `Upgrade` belongs to one connection, so it was removed with the client's other hop-by-hop headers.
        if self.opens_websocket {
            head.headers
                .insert(UPGRADE, HeaderValue::from_static("websocket"));
            head.set_connection_type(ConnectionType::Upgrade);
        }
        head
    }
}

fn refused(message: &'static str) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, message)
}

/// Returns whether a request may be sent again after it has reached a node: it changes nothing, or its operation accepts the request's
/// idempotency key.
fn repeat(method: &Method, path: &str, headers: &HeaderMap) -> Repeat {
    let is_safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    // Operations without idempotency ignore the key, so it would not protect them.
    let has_key = || headers.contains_key(KEY) && takes_key(method, path);
    if is_safe || has_key() {
        Repeat::Always
    } else {
        Repeat::UnlessReached
    }
}

fn takes_key(method: &Method, path: &str) -> bool {
    find_route(path)
        .and_then(|route| route.operation(method.as_str()))
        .is_some_and(|operation| operation.spec().idempotent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::api::routes;

    fn repeated(method: &str, path: &str, key: Option<&'static str>) -> Repeat {
        let mut headers = HeaderMap::new();
        key.iter().for_each(|key| {
            headers.insert(KEY, HeaderValue::from_static(key));
        });
        repeat(
            &Method::from_bytes(method.as_bytes()).unwrap(),
            path,
            &headers,
        )
    }

    #[test]
    fn reads_and_changes_with_a_key_may_be_sent_again() {
        for (method, path) in [
            ("GET", "/v1/rooms"),
            ("HEAD", "/"),
            ("OPTIONS", "/v1/rooms"),
            ("GET", "/rtc"),
        ] {
            assert_eq!(
                repeated(method, path, None),
                Repeat::Always,
                "{method} {path}"
            );
        }
        assert_eq!(repeated("POST", "/v1/rooms", Some("a")), Repeat::Always);
        assert_eq!(repeated("POST", "/v1/rooms", None), Repeat::UnlessReached);
    }

    #[test]
    fn a_key_that_the_operation_does_not_take_permits_nothing() {
        for (method, path) in [
            ("POST", "/whip/key"),
            ("POST", "/v1/rooms/"),
            ("PUT", "/v1/rooms"),
            ("BREW", "/v1/rooms"),
        ] {
            assert_eq!(
                repeated(method, path, Some("a")),
                Repeat::UnlessReached,
                "{method} {path}"
            );
        }
        for operation in routes::operations() {
            let spec = operation.spec();
            let path = spec.path.replace(['{', '}'], "");
            let expected = if spec.idempotent || spec.method.as_str() == "GET" {
                Repeat::Always
            } else {
                Repeat::UnlessReached
            };
            assert_eq!(
                repeated(spec.method.as_str(), &path, Some("a")),
                expected,
                "{}",
                spec.id
            );
        }
    }
}
