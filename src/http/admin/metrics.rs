//! `/metrics`: the server's metrics, as Prometheus reads them.

use std::sync::Arc;

use actix_web::{HttpResponse, web};

use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::metrics::Metrics;
use crate::http::resource::single_method_resource;
use crate::http::state::AppState;
use crate::tls::TlsStatus;

/// The media type of Prometheus' text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Adds the route `GET /metrics` of the admin listener.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let state = Arc::clone(state);
    let shown = web::get().to(move || {
        let shown = show(&state);
        async { shown }
    });
    config.service(single_method_resource("/metrics", Method::Get, shown));
}

fn show(state: &AppState) -> HttpResponse {
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
    respond(&state.metrics)
}

/// Responds with the metrics as they are.
pub(super) fn respond(metrics: &Metrics) -> HttpResponse {
    match metrics.text() {
        Ok(text) => HttpResponse::Ok().content_type(CONTENT_TYPE).body(text),
        Err(error) => {
            log::error!("the metrics could not be written: {error}");
            ApiError::internal(error).to_http()
        }
    }
}
