//! Browsers: host names under which this server may be called, allowed origins, and CORS headers.
//!
//! The API is for servers ([`Origins`]). A cross-origin call with an Authorization header is refused; preflight requests are answered
//! for the console's origins, and for the configured browser origins on operations that a room token may call and on the code
//! exchange.
//!
//! Requests that need no credential, at the admin listener without a token and at the call page of `dev`, must name an allowed host
//! ([`AllowedHosts`]). A web page can let its own name resolve to a loopback address (DNS rebinding) and so send requests through an
//! operator's browser as if they were local. The browser still sends the page's name in `Host` and `Origin`.

use actix_web::http::Method as HttpMethod;
use actix_web::http::header::{self, HOST, HeaderMap, HeaderValue};
use actix_web::http::uri::Authority;
use actix_web::{HttpRequest, HttpResponse};
use conclave_model::{ErrorCode, Problem};

use crate::config::HostName;
use crate::http::api::error::ApiError;
use crate::http::api::spec::OperationSpec;

// None of them is CORS-safelisted (Fetch standard): `Content-Type` is for a form's types and plain text only, not for JSON.
const ALLOWED_HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-type, idempotency-key, x-svc-room-token");
// A page's script reads only safelisted response headers without this list.
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("idempotency-replayed, retry-after, x-request-id");

/// Allowed origins.
#[derive(Debug, Default)]
pub struct Origins {
    /// Origins that may call every operation.
    pub console: Vec<String>,
    /// Origins that may call the operations for room tokens, and exchange room codes.
    pub browser: Vec<String>,
}

fn origin(request: &HttpRequest) -> Option<&str> {
    request.headers().get(header::ORIGIN)?.to_str().ok()
}

/// Returns whether the origin is the host that the request was sent to.
fn is_own(request: &HttpRequest, origin: &str) -> bool {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    // The scheme is not compared: behind a proxy that terminates TLS, the server does not see the original one.
    let bare = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    host.is_some() && bare == host
}

/// Refuses a request from a page of another host than the requested one.
///
/// # Errors
/// 403 `origin_rejected`.
pub fn check_same_origin(request: &HttpRequest) -> Result<(), Problem> {
    Origins::default().check(request)
}

fn listed(list: &[String], origin: &str) -> bool {
    list.iter()
        .any(|listed| listed.eq_ignore_ascii_case(origin))
}

impl Origins {
    /// Refuses a call with an Authorization header from another origin.
    ///
    /// # Errors
    /// 403 `origin_rejected`.
    pub fn check(&self, request: &HttpRequest) -> Result<(), Problem> {
        // Servers and curl send no `Origin`. Browsers add it to cross-origin calls, and scripts cannot remove it.
        if !request.headers().contains_key(header::ORIGIN) {
            return Ok(());
        }
        match origin(request) {
            Some(origin) if is_own(request, origin) || listed(&self.console, origin) => Ok(()),
            // An unreadable origin, or `null`, counts as another origin.
            _ => Err(rejected()),
        }
    }

    /// Returns whether a page of this origin may call every operation with an API key.
    #[must_use]
    pub fn admits_every_call(&self, origin: &str) -> bool {
        listed(&self.console, origin)
    }

    fn admits(&self, operation: &OperationSpec, origin: &str) -> bool {
        self.admits_every_call(origin)
            // Browser origins get no operation that takes an API key only: a key has no place in a page (S-73).
            || (operation.is_for_browsers() && listed(&self.browser, origin))
    }

    /// Adds the CORS headers with which a browser lets a page of an allowed origin read the response.
    pub fn admit_response(
        &self,
        operation: &OperationSpec,
        request: &HttpRequest,
        headers: &mut HeaderMap,
    ) {
        let Some(origin) = origin(request).filter(|origin| self.admits(operation, origin)) else {
            return;
        };
        if let Ok(origin) = HeaderValue::from_str(origin) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
            // The response depends on the origin, so caches must not share it among origins.
            headers.insert(header::VARY, HeaderValue::from_static("origin"));
        }
    }

    /// Responds to a preflight for a path with these operations.
    pub fn preflight(&self, request: &HttpRequest, operations: &[&OperationSpec]) -> HttpResponse {
        let wanted = request
            .headers()
            .get(header::ACCESS_CONTROL_REQUEST_METHOD)
            .and_then(|m| m.to_str().ok());
        // A HEAD is handled like a GET.
        let declared = if wanted == Some("HEAD") {
            Some("GET")
        } else {
            wanted
        };
        let operation = operations
            .iter()
            .find(|operation| Some(operation.method.as_str()) == declared);
        let admitted = operation
            .zip(origin(request))
            .filter(|(operation, origin)| self.admits(operation, origin));
        let Some(((_, origin), wanted)) = admitted.zip(wanted) else {
            return ApiError::from(rejected()).to_http();
        };
        HttpResponse::NoContent()
            // The requested origin, because `*` would allow every site.
            .insert_header((header::ACCESS_CONTROL_ALLOW_ORIGIN, origin))
            .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, wanted))
            .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS))
            // A changed setting takes effect in browsers within ten minutes.
            .insert_header((header::ACCESS_CONTROL_MAX_AGE, "600"))
            .insert_header((header::VARY, "origin"))
            .finish()
    }
}

/// Returns whether a request is a CORS preflight.
pub fn is_preflight(request: &HttpRequest) -> bool {
    request.method() == HttpMethod::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request
            .headers()
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn rejected() -> Problem {
    Problem::new(
        ErrorCode::OriginRejected,
        "calls from a browser on another origin are refused; call from a server",
    )
}

/// Paths that probes request by any name or address. They change nothing and reveal nothing about customers.
const PROBED: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Hosts that requests may name, besides loopback ones.
#[derive(Debug, Clone)]
pub struct AllowedHosts(pub Vec<HostName>);

impl AllowedHosts {
    /// Refuses a request for a host that is neither loopback nor listed, or with another host's `Origin`.
    ///
    /// # Errors
    /// 403 `origin_rejected`.
    pub fn check(&self, request: &HttpRequest) -> Result<(), Problem> {
        // Orchestrators probe by address, which is no allowed host.
        if PROBED.contains(&request.path()) {
            return Ok(());
        }
        if !requested_host(request.headers()).is_some_and(|host| self.allows(&host)) {
            let message =
                "the request was sent to a host that is neither loopback nor in admin.hosts";
            return Err(Problem::new(ErrorCode::OriginRejected, message));
        }
        check_same_origin(request)
    }

    fn allows(&self, host: &HostName) -> bool {
        // DNS rebinding arrives with the attacker's name in `Host`, so a loopback name proves a local request.
        host.is_loopback() || self.0.contains(host)
    }
}

/// Returns the host in `Host`; `None` if there is none, or several.
pub(in crate::http) fn requested_host(headers: &HeaderMap) -> Option<HostName> {
    let authority = requested_authority(headers)?;
    // A `Host` header has no user part (RFC 9110, section 7.2).
    let has_user = authority.as_str().contains('@');
    HostName::parse(authority.host()).filter(|_| !has_user)
}

/// Returns host and port in `Host`; `None` if there is none, or several.
pub(in crate::http) fn requested_authority(headers: &HeaderMap) -> Option<Authority> {
    let mut values = headers.get_all(HOST);
    // RFC 9112, section 3.2, requires a refusal of two `Host` headers.
    let authority = values.next()?.to_str().ok()?.parse().ok()?;
    values.next().is_none().then_some(authority)
}
