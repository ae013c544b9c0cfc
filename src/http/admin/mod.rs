//! The admin listener, for operators and tests: console, health, documentation, OpenAPI viewer, SDK packages, debug tree and sandbox.
//! It listens on loopback unless a token guards it. Without a token, requests must also name an allowed host ([`AllowedHosts`]), so
//! that a web page cannot reach it through the operator's browser.

pub mod access;
pub mod debug;
pub mod docs;
mod erasure;
pub mod events;
pub mod health;
mod sandbox;
mod standby;

use std::sync::Arc;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::guard::{GuardContext, fn_guard};
use actix_web::http::header::AUTHORIZATION;
use actix_web::middleware::{Condition, Next, from_fn};
use actix_web::{Error, Scope, web};
use conclave_model::{ErrorCode, Problem};

use super::api::error::ApiError;
use super::console;
use super::frame::origins::AllowedHosts;
use super::resource::no_such_route;
use super::state::AppState;
use access::AdminToken;
use health::Readiness;
pub use standby::configure_standby;

/// Routes the admin listener.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let hosts = AllowedHosts(state.admin.hosts.clone());
    let by_host = from_fn(move |request, next| require_host(hosts.clone(), request, next));
    // With a token, DNS rebinding gains nothing: a page does not know it.
    let all = web::scope("").wrap(Condition::new(state.admin.token.is_none(), by_host));
    config.service(all.configure(|config| configure_all(config, state)));
}

fn configure_all(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let readiness = Arc::new(Readiness::new(state));
    health::configure(config, state, &readiness);
    // Scopes are tried in order, so the programs' few prefixes come before the many paths of pages and console.
    let programs = guarded(state.admin.token.clone())
        .guard(fn_guard(is_for_programs))
        .configure(|config| {
            debug::configure(config, state);
            health::configure_metrics(config, state);
            if let Some(plane) = &state.planes.sandbox {
                sandbox::configure(config, plane, &state.checks.bodies);
            }
            events::configure(config, state);
            erasure::configure(config, state);
            standby::configure_step_down(config, state);
        });
    config.service(programs);
    // Without the token, as its module explains.
    docs::configure(config, state);
    super::console::sdks::configure(config, state);
    console::configure(config, state, &readiness);
    // Last, so that an unknown path is a 401 without the token: the paths of this listener are not revealed.
    config.service(guarded(state.admin.token.clone()));
}

/// Returns whether a path is for programs, which send the admin token.
fn is_for_programs(context: &GuardContext<'_>) -> bool {
    let path = context.head().uri.path();
    ["/debug", "/metrics", "/sandbox", "/step-down"]
        // By prefix: a longer path, such as `/debugger`, is guarded rather than open.
        .iter()
        .any(|prefix| path.starts_with(prefix))
}

/// Returns a scope that requires the admin token. Services are added to it; other paths are 404.
fn guarded(
    token: Option<Arc<AdminToken>>,
) -> Scope<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<impl MessageBody>,
        Error = Error,
        InitError = (),
    >,
> {
    web::scope("")
        .default_service(web::to(async || ApiError::from(no_such_route()).to_http()))
        .wrap(from_fn(move |request, next| {
            guard(token.clone(), request, next)
        }))
}

/// Refuses a request for a host that is not allowed.
async fn require_host(
    hosts: AllowedHosts,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    match hosts.check(request.request()) {
        Ok(()) => next
            .call(request)
            .await
            .map(ServiceResponse::map_into_left_body),
        Err(refused) => Ok(request
            .into_response(ApiError::from(refused).to_http())
            .map_into_right_body()),
    }
}

/// Refuses a request without the admin token, if one is configured, and all requests from an address that guesses it.
async fn guard(
    token: Option<Arc<AdminToken>>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    match token.map_or(Ok(()), |token| check(&request, &token)) {
        Ok(()) => next
            .call(request)
            .await
            .map(ServiceResponse::map_into_left_body),
        Err(refused) => Ok(request
            .into_response(ApiError::from(refused).to_http())
            .map_into_right_body()),
    }
}

fn check(request: &ServiceRequest, token: &AdminToken) -> Result<(), Problem> {
    let header = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let sent = header
        .and_then(|value| value.split_once(' '))
        .map_or("", |(_, token)| token.trim());
    if sent.is_empty() {
        // Not counted as a guess: a browser that opens a page of this listener sends no token.
        return Err(Problem::new(
            ErrorCode::Unauthorized,
            "the admin token is missing",
        ));
    }
    token.check(request.request(), sent)
}
