//! What probes and Prometheus ask for.
//!
//! - `/healthz`: the process serves.
//! - `/readyz`: what it needs answers ([`Readiness`]). The parts are asked once a second at most, however many probes ask: each time
//!   costs a write and a call of the media plane.
//! - `/metrics`: the server's metrics, as Prometheus reads them.
//!
//! The first two need no admin token.

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
    // Not a question of readiness: a request that needs a missing setting of LiveKit is refused by itself.
    if let Some(monitor) = &state.admin.livekit_config {
        shown["media_settings"] = json!(monitor.status());
    }
    // Nor is this: a recording without ffmpeg is refused by itself.
    if let Some(plane) = &state.planes.signalling
        && let Some(ffmpeg) = plane.ffmpeg().await
    {
        shown["egress"] =
            json!(ffmpeg.map_or_else(|error| error.to_string(), |ffmpeg| ffmpeg.to_string()));
    }
    // Nor is this: the database and the media plane show whether it matters.
    if let Some(lease) = &state.lease {
        shown["lease"] = json!(lease.status());
    }
    // Nor is this: a CA that verifies the domain needs the listeners.
    if let Some(tls) = &state.api.tls {
        shown["tls"] = json!(tls.to_string());
    }
    // Nor is this: calls go on without a copy.
    if let Some(backups) = &state.admin.backups {
        shown["backup"] = json!(backups.to_string());
    }
    let stops = state
        .passed_on
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

/// A part that takes longer than this does not answer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the result of a check is used, from its start on.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Which parts answer.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The database can be written.
    pub database: bool,
    /// The media plane answers.
    pub media: bool,
    /// The root actor answers.
    pub actors: bool,
}

impl Parts {
    /// Whether all parts answer.
    pub const fn are_ready(self) -> bool {
        self.database && self.media && self.actors
    }
}

/// A check that has been started, or has finished. Every probe that asks meanwhile waits for the same one.
struct Check {
    /// When it was started, by the monotonic clock.
    started: Duration,
    result: Shared<BoxFuture<'static, Parts>>,
}

/// The last check.
pub struct Readiness {
    state: Arc<AppState>,
    last: Mutex<Option<Check>>,
}

impl Readiness {
    /// Nothing is checked before the first probe.
    pub fn new(state: &Arc<AppState>) -> Self {
        Self {
            state: Arc::clone(state),
            last: Mutex::default(),
        }
    }

    /// Returns which parts answer, as of less than a second ago.
    pub async fn parts(&self) -> Parts {
        self.current().await
    }

    fn current(&self) -> Shared<BoxFuture<'static, Parts>> {
        let now = self.state.clock.monotonic();
        let mut last = self.last.lock();
        match &*last {
            Some(check) if now.saturating_sub(check.started) < MAX_AGE => check.result.clone(),
            _ => {
                let result = check(Arc::clone(&self.state)).boxed().shared();
                last.insert(Check {
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

/// The media type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Adds the route `GET /metrics` of the admin listener.
pub fn configure_metrics(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let state = Arc::clone(state);
    let shown = web::get().to(move || {
        let shown = show_metrics(&state);
        async { shown }
    });
    config.service(single_method_resource("/metrics", Method::Get, shown));
}

fn show_metrics(state: &AppState) -> HttpResponse {
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

/// Responds with the metrics as they are.
pub(super) fn respond_with_metrics(metrics: &Metrics) -> HttpResponse {
    match metrics.text() {
        Ok(text) => HttpResponse::Ok().content_type(METRICS_TYPE).body(text),
        Err(error) => {
            log::error!("the metrics could not be written: {error}");
            ApiError::internal(error).to_http()
        }
    }
}
