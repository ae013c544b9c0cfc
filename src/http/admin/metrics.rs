//! `/metrics`: the server's numbers, as Prometheus reads them.

use std::sync::Arc;

use actix_web::{HttpResponse, web};

use crate::http::app::place;
use crate::http::operation::Method;
use crate::http::problem::{self, Problem};
use crate::http::state::AppState;

/// The text format that is written.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Routes it.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let state = Arc::clone(state);
    let shown = web::get().to(move || {
        let shown = show(&state);
        async { shown }
    });
    config.service(place("/metrics", Method::Get, shown));
}

fn show(state: &AppState) -> HttpResponse {
    state.metrics.actors.update_gauges(state.tree.registry());
    match state.metrics.text() {
        Ok(text) => HttpResponse::Ok().content_type(CONTENT_TYPE).body(text),
        Err(error) => {
            log::error!("the metrics could not be written: {error}");
            problem::response(&Problem::internal())
        }
    }
}
