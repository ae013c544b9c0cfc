//! Which requests are taken without a credential, by the host that they are sent to: those of the admin
//! listener without a token, and those of the call page of `dev`.
//!
//! A web page can let its own name resolve to a loopback address (DNS rebinding) and so send requests through an operator's
//! browser, as if it were at home here. The browser still says in `Host` and `Origin` under which name it does so.

use actix_web::HttpRequest;
use actix_web::http::header::{HOST, HeaderMap};
use actix_web::http::uri::Authority;
use conclave_model::{ErrorCode, Problem};

use super::origins;
use crate::config::HostName;

/// Paths that probes ask by any name. They change nothing, and say nothing about customers.
const PROBED: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// The hosts that requests may be sent to besides loopback ones.
#[derive(Debug, Clone)]
pub struct AllowedHosts(pub Vec<HostName>);

impl AllowedHosts {
    /// Refuses a request to a host that is neither loopback nor listed, or with an `Origin` of another host.
    ///
    /// # Errors
    /// 403 `origin_rejected`.
    pub fn check(&self, request: &HttpRequest) -> Result<(), Problem> {
        if PROBED.contains(&request.path()) {
            return Ok(());
        }
        if !requested_host(request.headers()).is_some_and(|host| self.allows(&host)) {
            let message =
                "the request was sent to a host that is neither loopback nor in admin.hosts";
            return Err(Problem::new(ErrorCode::OriginRejected, message));
        }
        origins::check_same_origin(request)
    }

    fn allows(&self, host: &HostName) -> bool {
        host.is_loopback() || self.0.contains(host)
    }
}

/// Returns the host that the client names; `None` if it names none, or several.
pub(in crate::http) fn requested_host(headers: &HeaderMap) -> Option<HostName> {
    let authority = requested_authority(headers)?;
    let has_user = authority.as_str().contains('@');
    HostName::parse(authority.host()).filter(|_| !has_user)
}

/// Returns the host with the port that the client names in `Host`; `None` if it names none, or several.
pub(in crate::http) fn requested_authority(headers: &HeaderMap) -> Option<Authority> {
    let mut values = headers.get_all(HOST);
    let authority = values.next()?.to_str().ok()?.parse().ok()?;
    values.next().is_none().then_some(authority)
}
