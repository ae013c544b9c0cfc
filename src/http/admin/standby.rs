//! Step-down: `POST /step-down` makes the active server release the lease and return as a standby.
//!
//! A standby's admin listener ([`configure_standby`]) has probes, metrics, the lease's status, and one page of the console.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix_web::guard::fn_guard;
use actix_web::middleware::{Condition, from_fn};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_db::lease::Role;
use serde_json::json;
use tokio::sync::Notify;

use super::{guarded, health, is_for_programs, require_host};
use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::app::unavailable;
use crate::http::console;
use crate::http::frame::origins::AllowedHosts;
use crate::http::lease::{LeaseView, asked_role};
use crate::http::resource::{health as alive, single_method_resource};
use crate::http::state::{AppState, StandbyState};

/// Routes a standby's admin listener.
pub fn configure_standby(config: &mut web::ServiceConfig, state: &Arc<StandbyState>) {
    let hosts = AllowedHosts(state.hosts.clone());
    let by_host = from_fn(move |request, next| require_host(hosts.clone(), request, next));
    let all = web::scope("").wrap(Condition::new(state.token.is_none(), by_host));
    config.service(all.configure(|config| {
        alive(config);
        let probe_state = Arc::clone(state);
        let ready = web::get().to(move |request: HttpRequest| {
            let response = ready(&probe_state, &request);
            async move { response }
        });
        config.service(single_method_resource("/readyz", Method::Get, ready));
        let programs = guarded(state.token.clone()).guard(fn_guard(is_for_programs));
        config.service(programs.configure(|config| configure_programs(config, state)));
        console::configure_standby(config, state);
        // 503 rather than 404: the active server may know the path.
        config.default_service(web::to(async || unavailable()));
    }));
}

fn configure_programs(config: &mut web::ServiceConfig, state: &Arc<StandbyState>) {
    let (metrics_state, debug_state) = (Arc::clone(state), Arc::clone(state));
    let shown = web::get().to(move || {
        metrics_state.lease.update_gauges();
        let response = health::respond_with_metrics(&metrics_state.metrics);
        async move { response }
    });
    config.service(single_method_resource("/metrics", Method::Get, shown));
    let lease = web::get().to(move || {
        let response = HttpResponse::Ok().json(debug_state.lease.to_json());
        async move { response }
    });
    config.service(single_method_resource("/debug/lease", Method::Get, lease));
    // Routed, so that `conclave step-down` gets a reason instead of a 503.
    let refused = web::post().to(async || refuse("this server is not the active one"));
    config.service(single_method_resource("/step-down", Method::Post, refused));
}

/// A standby is ready while its proxy reaches the active server, until it stops; otherwise a load balancer must not send it requests.
/// When it becomes active, it is ready once its own listeners serve.
fn ready(state: &StandbyState, request: &HttpRequest) -> HttpResponse {
    let asked = match asked_role(request) {
        Ok(asked) => asked,
        Err(problem) => return ApiError::from(problem).to_http(),
    };
    let (role, database) = (state.lease.role(), health::word(state.lease.is_answered()));
    let reaches = state.reaches_active.as_ref().map(|reaches| reaches());
    // A stopping standby still proxies its open requests, but must not get new ones.
    let serves = reaches == Some(true) && !state.is_stopping.load(Ordering::Relaxed);
    // `?role=active` is never satisfied here, whatever the proxy reaches.
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

/// Delay between the response and the step-down, so that the response is sent before the listener stops.
const ANSWER_TIME: Duration = Duration::from_millis(100);
/// Time to search for a successor. A standby that has just started needs a moment to register.
const SEARCH: Duration = Duration::from_secs(3);

/// Adds the path, if several servers share the database.
pub fn configure_step_down(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let Some(lease) = state.lease.clone() else {
        // Without a lease there is nobody to hand over to, so the path is a 404.
        return;
    };
    let asked = Arc::clone(&state.admin.step_down);
    let step_down = web::post().to(move || {
        let (lease, asked) = (Arc::clone(&lease), Arc::clone(&asked));
        async move { step_down(&lease, asked).await.unwrap_or_else(refuse) }
    });
    config.service(single_method_resource(
        "/step-down",
        Method::Post,
        step_down,
    ));
}

async fn step_down(lease: &LeaseView, asked: Arc<Notify>) -> Result<HttpResponse, &'static str> {
    if lease.role() != Role::Active {
        // Before the search, which takes seconds.
        return Err("this server is not the active one");
    }
    // Without a successor the database would have no active server until this one takes the lease again.
    let standbys = lease.successors(SEARCH).await;
    if standbys.is_empty() {
        return Err("no other server could take over");
    }
    tokio::spawn(async move {
        tokio::time::sleep(ANSWER_TIME).await;
        asked.notify_one();
    });
    log::info!(caller = "operator"; "this server steps down");
    // 202: the hand-over goes on after the response.
    Ok(HttpResponse::Accepted().json(json!({"stepping_down": true, "standbys": standbys})))
}

/// Responds with 409 and the reason.
fn refuse(reason: &str) -> HttpResponse {
    HttpResponse::Conflict().json(json!({"stepping_down": false, "reason": reason}))
}
