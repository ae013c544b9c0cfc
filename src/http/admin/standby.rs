//! The admin listener of a standby: probes, metrics, the lease that it waits for, and one page of the console.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use actix_web::guard::fn_guard;
use actix_web::middleware::{Condition, from_fn};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_db::lease::Role;
use serde_json::json;

use super::{guarded, health, is_of_a_program, metrics, require_host, step_down};
use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::console;
use crate::http::frame::hosts::AllowedHosts;
use crate::http::lease::asked_role;
use crate::http::resource::{health as alive, single_method_resource};
use crate::http::standby::{StandbyState, unavailable};

/// Routes the admin listener of a standby.
pub fn configure_standby(config: &mut web::ServiceConfig, state: &Arc<StandbyState>) {
    let hosts = AllowedHosts(state.hosts.clone());
    let by_host = from_fn(move |request, next| require_host(hosts.clone(), request, next));
    let all = web::scope("").wrap(Condition::new(state.token.is_none(), by_host));
    config.service(all.configure(|config| {
        alive(config);
        let of_probe = Arc::clone(state);
        let ready = web::get().to(move |request: HttpRequest| {
            let response = ready(&of_probe, &request);
            async move { response }
        });
        config.service(single_method_resource("/readyz", Method::Get, ready));
        let programs = guarded(state.token.clone()).guard(fn_guard(is_of_a_program));
        config.service(programs.configure(|config| configure_programs(config, state)));
        console::configure_standby(config, state);
        config.default_service(web::to(async || unavailable()));
    }));
}

fn configure_programs(config: &mut web::ServiceConfig, state: &Arc<StandbyState>) {
    let (of_metrics, of_debug) = (Arc::clone(state), Arc::clone(state));
    let shown = web::get().to(move || {
        of_metrics.lease.update_gauges();
        let response = metrics::respond(&of_metrics.metrics);
        async move { response }
    });
    config.service(single_method_resource("/metrics", Method::Get, shown));
    let lease = web::get().to(move || {
        let response = HttpResponse::Ok().json(of_debug.lease.to_json());
        async move { response }
    });
    config.service(single_method_resource("/debug/lease", Method::Get, lease));
    let refused = web::post().to(async || step_down::refuse("this server is not the active one"));
    config.service(single_method_resource("/step-down", Method::Post, refused));
}

/// A standby is ready if what it passes on gets anywhere, until it stops. Otherwise a load balancer must send nothing to it. As the active
/// one it is ready once its own listeners serve.
fn ready(state: &StandbyState, request: &HttpRequest) -> HttpResponse {
    let asked = match asked_role(request) {
        Ok(asked) => asked,
        Err(problem) => return ApiError::from(problem).to_http(),
    };
    let (role, database) = (state.lease.role(), health::word(state.lease.is_answered()));
    let reaches = state.reaches_active.as_ref().map(|reaches| reaches());
    let serves = reaches == Some(true) && !state.is_stopping.load(Ordering::Relaxed);
    let ready = serves && asked.is_none_or(|asked| asked == role && role != Role::Active);
    let parts = json!({"database": database, "lease": state.lease.status()});
    let mut body = json!({"ready": ready, "role": role.as_str(), "parts": parts});
    if let Some(reaches) = reaches {
        body["parts"]["active"] = json!(health::word(reaches));
    }
    if let Some(obstacle) = state.lease.obstacle() {
        body["obstacle"] = json!(obstacle);
    }
    if ready {
        HttpResponse::Ok().json(body)
    } else {
        HttpResponse::ServiceUnavailable().json(body)
    }
}
