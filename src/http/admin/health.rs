//! Endpoints for probes and Prometheus.
//!
//! - `/healthz`: the process serves.
//! - `/readyz`: its dependencies are available ([`Readiness`]). They are checked at most once per second, however many probes
//!   arrive: a check costs a write and a call to the media plane.
//! - `/metrics`: the server's metrics in Prometheus' text format.
//!
//! The first two need no admin token, since load balancers and orchestrators send none.

use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::timeout;

use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::lease::{asked_role, role_of};
use crate::http::metrics::Metrics;
use crate::http::resource::{health, single_method_resource};
use crate::http::state::AppState;
use crate::tls::TlsStatus;

/// Adds `/healthz` and `/readyz`.
pub fn configure(
    config: &mut web::ServiceConfig,
    state: &Arc<AppState>,
    readiness: &Arc<Readiness>,
) {
    health(config);
    let (state, readiness) = (Arc::clone(state), Arc::clone(readiness));
    let ready = web::get()
        .to(move |request: HttpRequest| ready(Arc::clone(&state), Arc::clone(&readiness), request));
    config.service(single_method_resource("/readyz", Method::Get, ready));
}

async fn ready(
    state: Arc<AppState>,
    readiness: Arc<Readiness>,
    request: HttpRequest,
) -> HttpResponse {
    let asked = match asked_role(&request) {
        Ok(asked) => asked,
        Err(problem) => return ApiError::from(problem).to_http(),
    };
    let (parts, role) = (readiness.parts().await, role_of(state.lease.as_ref()));
    let mut shown = json!({"database": word(parts.database), "media": word(parts.media), "actors": word(parts.actors)});
    // Does not affect readiness: a request that needs a missing LiveKit setting is refused on its own.
    if let Some(monitor) = &state.admin.livekit_config {
        shown["media_settings"] = json!(monitor.status());
    }
    // Does not affect readiness: without ffmpeg, only recordings are refused.
    if let Some(plane) = &state.planes.signalling
        && let Some(ffmpeg) = plane.ffmpeg().await
    {
        shown["egress"] =
            json!(ffmpeg.map_or_else(|error| error.to_string(), |ffmpeg| ffmpeg.to_string()));
    }
    // Does not affect readiness: if the lease matters, database or media plane are unavailable, too.
    if let Some(lease) = &state.lease {
        shown["lease"] = json!(lease.status());
    }
    // Does not affect readiness: a CA that verifies the domain needs the listeners.
    if let Some(tls) = &state.api.tls {
        shown["tls"] = json!(tls.to_string());
    }
    // Does not affect readiness: calls continue without a backup.
    if let Some(backups) = &state.admin.backups {
        shown["backup"] = json!(backups.to_string());
    }
    // The gate closes when the server stops: a load balancer must send its requests elsewhere.
    let stops = state
        .forwarding_gate
        .as_ref()
        .is_some_and(|gate| gate.is_closed());
    let ready = parts.are_ready() && !stops && asked.is_none_or(|asked| asked == role);
    let body = json!({"ready": ready, "role": role.as_str(), "parts": shown});
    if ready {
        HttpResponse::Ok().json(body)
    } else {
        HttpResponse::ServiceUnavailable().json(body)
    }
}

pub(super) const fn word(answers: bool) -> &'static str {
    if answers { "ok" } else { "unavailable" }
}

/// Time limit per check; a slower dependency counts as unavailable.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// Time from a check's start during which its result is reused.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Availability of the server's dependencies.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The database accepts writes.
    pub database: bool,
    /// The media plane responds.
    pub media: bool,
    /// The root actor responds.
    pub actors: bool,
}

impl Parts {
    /// Returns whether all dependencies are available.
    pub const fn are_ready(self) -> bool {
        self.database && self.media && self.actors
    }
}

/// Check in progress or finished. Probes that arrive meanwhile share it.
struct ReadinessCheck {
    /// Start, by the monotonic clock.
    started: Duration,
    result: Shared<BoxFuture<'static, Parts>>,
}

/// Cached readiness check.
pub struct Readiness {
    state: Arc<AppState>,
    last: Mutex<Option<ReadinessCheck>>,
}

impl Readiness {
    /// Creates the cache. The first probe starts the first check.
    pub fn new(state: &Arc<AppState>) -> Self {
        Self {
            state: Arc::clone(state),
            last: Mutex::default(),
        }
    }

    /// Returns which dependencies are available, as of less than a second ago.
    pub async fn parts(&self) -> Parts {
        self.current().await
    }

    fn current(&self) -> Shared<BoxFuture<'static, Parts>> {
        let now = self.state.clock.monotonic();
        let mut last = self.last.lock();
        match &*last {
            Some(check) if now.saturating_sub(check.started) < MAX_AGE => check.result.clone(),
            _ => {
                // Shared and boxed, so the lock is released before anything is awaited, and a probe that disconnects does not cancel
                // the others' check.
                let result = check(Arc::clone(&self.state)).boxed().shared();
                last.insert(ReadinessCheck {
                    started: now,
                    result,
                })
                .result
                .clone()
            }
        }
    }
}

async fn check(state: Arc<AppState>) -> Parts {
    Parts {
        database: timeout(CHECK_TIMEOUT, state.store.server().ping())
            .await
            .is_ok_and(|answer| answer.is_ok()),
        media: timeout(CHECK_TIMEOUT, state.media.health())
            .await
            .is_ok_and(|answer| answer.is_ok()),
        actors: state.tree.ping(CHECK_TIMEOUT).await.is_ok(),
    }
}

/// Media type of Prometheus' text format.
// Prometheus 3 refuses a response without a media type that it knows.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Adds `GET /metrics` to the admin listener.
pub fn configure_metrics(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let state = Arc::clone(state);
    let shown = web::get().to(move || {
        let shown = show_metrics(&state);
        async { shown }
    });
    config.service(single_method_resource("/metrics", Method::Get, shown));
}

fn show_metrics(state: &AppState) -> HttpResponse {
    // Gauges for current values are read at the scrape; keeping them up to date would cost a write per event.
    state.metrics.actors.update_gauges(state.tree.registry());
    state
        .metrics
        .actors
        .update_report_gauge(state.tree.reports());
    state
        .metrics
        .actors
        .update_upload_gauges(state.tree.uploads());
    state.metrics.set_admitted(state.checks.admission.counts());
    if let Some(expires) = state.api.tls.as_ref().and_then(TlsStatus::expires) {
        state.metrics.set_certificate_expiry(expires);
    }
    state.lease.iter().for_each(|lease| lease.update_gauges());
    respond_with_metrics(&state.metrics)
}

/// Responds with the registered metrics.
pub(super) fn respond_with_metrics(metrics: &Metrics) -> HttpResponse {
    match metrics.text() {
        Ok(text) => HttpResponse::Ok().content_type(METRICS_TYPE).body(text),
        Err(error) => {
            log::error!("rendering the metrics failed: {error}");
            ApiError::internal(error).to_http()
        }
    }
}
