//! What a standby answers: it is alive and not ready, and it knows nothing of the records.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use conclave_model::{ErrorCode, Problem};

use super::frame::payload::BodyReader;
use super::lease::LeaseView;
use super::metrics::Metrics;
use super::redirect::redirect;
use super::resource::{fixed_handler, public_description, public_health};
use crate::config::HostName;
use crate::http::admin::access::{ConsoleAccess, Guarded};
use crate::http::admin::admin_token::AdminToken;
use crate::http::api::error::ApiError;
use crate::http::frame::limits::FixedLimits;

/// `Retry-After` of every request that needs the records.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Tells whether what is passed on reaches the active server.
pub type ReachesActive = Box<dyn Fn() -> bool + Send + Sync>;

/// The parts that requests to a standby share.
pub struct StandbyState {
    /// The lease that it waits for.
    pub lease: Arc<LeaseView>,
    /// The metrics of the server.
    pub metrics: Metrics,
    /// The bearer token of requests to the admin listener, if one is required.
    pub token: Option<Arc<AdminToken>>,
    /// Hosts that requests to the admin listener may be sent to, besides loopback ones.
    pub hosts: Vec<HostName>,
    /// Who may use the console.
    pub console: Arc<ConsoleAccess>,
    /// Reads the forms of the console.
    pub forms: BodyReader,
    /// Whether requests to the API that are passed on reach the active server; `None` if none are passed on.
    pub reaches_active: Option<ReachesActive>,
    /// Whether it stops, and is to get no more requests.
    pub is_stopping: Arc<AtomicBool>,
    /// The port of the API listener.
    pub port: u16,
    /// The limits of its responses on the public listeners.
    pub fixed: Arc<FixedLimits>,
}

impl Guarded for StandbyState {
    fn console(&self) -> &ConsoleAccess {
        &self.console
    }

    fn forms(&self) -> &BodyReader {
        &self.forms
    }
}

/// Routes the API listener: every operation is unavailable.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<StandbyState>) {
    public_health(config, &state.fixed);
    public_description(config, &state.fixed);
    config.default_service(web::to(fixed_handler(&state.fixed, |_| unavailable())));
}

/// Routes the listener that redirects to `https`.
pub fn configure_redirect(config: &mut web::ServiceConfig, state: &Arc<StandbyState>) {
    let port = state.port;
    config.default_service(web::to(fixed_handler(&state.fixed, move |request| {
        redirect(request, port)
    })));
}

/// The answer to each operation: 503 `database_unavailable`, with the time after which to retry.
pub(super) fn unavailable() -> HttpResponse {
    let message = "this server is a standby: another one has the records; retry with backoff";
    ApiError::from(Problem::new(ErrorCode::DatabaseUnavailable, message).after(RETRY_AFTER))
        .to_http()
}
