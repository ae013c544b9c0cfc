//! `HEAD`: it is handled as the `GET` of the same path, with the same checks, and its response has the same headers and no body
//! (RFC 9110, section 9.3.2). Operations therefore declare `GET` alone.

use actix_web::dev::ServiceRequest;
use actix_web::http::Method;
use actix_web::{HttpMessage, HttpRequest};

use super::request_boundary::opens_websocket;

/// Marks a request in its extensions: it was a `HEAD`.
#[derive(Clone, Copy)]
struct AsksForHead;

/// Makes a `HEAD` a `GET`, and returns whether it was one. A websocket is opened by `GET` only.
pub fn handle_as_get(request: &mut ServiceRequest) -> bool {
    let is_head = request.method() == Method::HEAD && !opens_websocket(request.request());
    if is_head {
        request.head_mut().method = Method::GET;
        request.extensions_mut().insert(AsksForHead);
    }
    is_head
}

/// Whether a request was a `HEAD`.
pub fn asks_for_head(request: &HttpRequest) -> bool {
    request.extensions().get::<AsksForHead>().is_some()
}

/// Returns the method that the client sent.
pub fn sent_method(request: &HttpRequest) -> Method {
    if asks_for_head(request) {
        Method::HEAD
    } else {
        request.method().clone()
    }
}

/// Adds `HEAD` to the methods of a path that takes `GET`, which are separated by commas.
pub fn with_head(methods: &str) -> String {
    let names = methods.split(", ").flat_map(|method| match method {
        "GET" => vec!["GET", "HEAD"],
        "HEAD" => Vec::new(),
        other => vec![other],
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_takes_get_takes_head() {
        for (methods, expected) in [
            ("GET", "GET, HEAD"),
            ("GET, POST", "GET, HEAD, POST"),
            ("POST", "POST"),
            ("GET, HEAD", "GET, HEAD"),
        ] {
            assert_eq!(with_head(methods), expected);
        }
    }
}
