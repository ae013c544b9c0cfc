//! The console: pages for operators on the admin listener, rendered on the server.
//!
//! A file for each page or resource has its templates and its handlers. What a page shows of a project, and each action, is an
//! operation of the API, called for the operator ([`operator_call`]). Pages can be read without scripts; with them, parts of a
//! page are read again while it is visible. Nothing runs while no page is open.

mod actors;
mod assets;
mod broadcasts;
mod cluster;
mod egress;
pub mod history;
mod ingress;
mod layout;
mod notes;
mod operator_call;
mod overview;
mod parts;
mod plots;
mod projects;
mod recordings;
mod room;
mod rooms;
mod route;
pub mod sdks;
mod server;
mod sessions;
mod settings;
mod sign_in;
mod standby;
mod templates;
mod timeline;
mod usage;
mod visit;
mod webhooks;

use std::sync::Arc;

use actix_web::web;

use super::state::AppState;
use crate::http::admin::readiness::Readiness;
pub use standby::configure_standby;

/// Routes the console.
pub fn configure(
    config: &mut web::ServiceConfig,
    state: &Arc<AppState>,
    readiness: &Arc<Readiness>,
) {
    config.app_data(web::Data::from(Arc::clone(readiness)));
    assets::configure(config);
    sign_in::configure(config, state);
    route::configure(config, state, routes());
}

/// The pages and actions that need a session.
fn routes() -> Vec<route::Route> {
    let routes = [
        sign_in::routes(),
        overview::routes(),
        projects::routes(),
        rooms::routes(),
        room::routes(),
        sessions::routes(),
        recordings::routes(),
        broadcasts::routes(),
        ingress::routes(),
        templates::routes(),
        webhooks::routes(),
        usage::routes(),
        settings::routes(),
        actors::routes(),
        server::routes(),
    ];
    routes.into_iter().flatten().collect()
}
