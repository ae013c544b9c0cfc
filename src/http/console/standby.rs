//! The console of a standby: one page, about the servers of the database. It has no records to show.

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_db::lease::ClusterState;
use maud::{Markup, html};

use super::{assets, cluster, layout, route, sign_in, visit};
use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::resource::single_method_resource;
use crate::http::standby::StandbyState;

/// Routes the page, and signing in and out.
pub fn configure_standby(config: &mut web::ServiceConfig, state: &Arc<StandbyState>) {
    assets::configure(config);
    sign_in::configure(config, state);
    for path in ["/", "/server"] {
        let state = Arc::clone(state);
        let page = web::get().to(move |request: HttpRequest| {
            let response = page(&state, &request);
            async move { response }
        });
        config.service(single_method_resource(path, Method::Get, page));
    }
    let state = Arc::clone(state);
    let sign_out = web::post().to(move |request: HttpRequest, payload: web::Payload| {
        let state = Arc::clone(&state);
        async move { sign_out(&state, &request, payload).await }
    });
    config.service(single_method_resource("/sign-out", Method::Post, sign_out));
}

fn page(state: &StandbyState, request: &HttpRequest) -> HttpResponse {
    match state.console.operator(request) {
        Some(operator) => visit::html(
            StatusCode::OK,
            layout::of_standby(&operator, &content(state)),
        ),
        None => route::turn_away(state, request),
    }
}

fn content(state: &StandbyState) -> Markup {
    let cluster = state.lease.cluster();
    let console = cluster
        .as_ref()
        .and_then(ClusterState::active)
        .and_then(|node| node.info.admin_url.as_ref());
    html! {
        h1 { "Server" }
        p {
            "This server is a standby: another one has the records, and this one can take over from it. "
            @if let Some(console) = console { a href=(console) { "The console of the active server" } }
            @else { "The console of the active server shows what is live." }
        }
        (cluster::section(&state.lease))
    }
}

async fn sign_out(
    state: &StandbyState,
    request: &HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let Some(operator) = state.console.operator(request) else {
        return route::turn_away(state, request);
    };
    match route::form(state, request, payload, &operator.csrf).await {
        Ok(_) => sign_in::end_session(state, request),
        Err(error) => ApiError::to_http(&error),
    }
}
