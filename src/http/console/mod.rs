//! The console: server-rendered pages for operators on the admin listener.
//!
//! [`route`] requires a session ([`sign_in`]) and passes the request as a [`visit`] to its page's handler: the request, and the
//! operator who sent it. A project's data and each action come from an API operation, called for the operator
//! ([`visit::OperatorCall`]). Pages are built with [`layout`] and [`parts`], and are readable without scripts; with scripts, parts of
//! a page refresh while it is visible. Nothing runs while no page is open.
//!
//! The pages, each with its templates and handlers:
//!
//! - for the server: [`overview`] with [`history`] and the lists [`live`], [`actors`], [`server`] (also a standby's), and [`sdks`],
//!   which needs no session;
//! - for projects: [`projects`] with their usage, [`rooms`] with [`new_room`], [`room`], [`sessions`] with their [`quality`], [`recordings`] and broadcasts,
//!   [`ingress`], [`templates`] with [`destinations`], [`webhooks`], [`settings`].
//!
//! The scripts are improvements only: `console.js` refreshes and confirms, `local_time.js` adds the browser's time to times in UTC, and
//! `field_problems.js` shows an action's problem beside the field that it is about.
//!
//! This module has the route table, and the static files with the content security policy for all pages.

mod actors;
mod destinations;
pub mod history;
mod ingress;
mod layout;
mod live;
mod new_room;
mod overview;
mod parts;
mod projects;
mod quality;
mod recordings;
mod room;
mod rooms;
mod route;
pub mod sdks;
mod server;
mod sessions;
mod settings;
mod sign_in;
mod templates;
mod visit;
mod webhooks;

use std::sync::Arc;

use actix_web::web;

use super::admin::health::Readiness;
use super::api::spec::Method;
use super::resource::{page_response, single_method_resource};
use super::state::AppState;

pub use server::configure_standby;

/// Routes the console.
pub fn configure(
    config: &mut web::ServiceConfig,
    state: &Arc<AppState>,
    readiness: &Arc<Readiness>,
) {
    // The probes' own cache, so that the overview costs no additional check.
    config.app_data(web::Data::from(Arc::clone(readiness)));
    configure_assets(config);
    sign_in::configure(config, state);
    route::configure(config, state, routes());
}

/// Returns the pages and actions that need a session.
fn routes() -> Vec<route::Route> {
    let routes = [
        sign_in::routes(),
        overview::routes(),
        live::routes(),
        projects::routes(),
        rooms::routes(),
        new_room::routes(),
        room::routes(),
        sessions::routes(),
        recordings::routes(),
        ingress::routes(),
        templates::routes(),
        destinations::routes(),
        webhooks::routes(),
        settings::routes(),
        actors::routes(),
        server::routes(),
    ];
    routes.into_iter().flatten().collect()
}

/// Content security policy: files from this listener only, without inline scripts and styles.
// htmx is configured not to need inline styles or `eval` (`layout`).
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; \
                          connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
/// Name, content type, content.
const FILES: [(&str, &str, &str); 8] = [
    ("console.css", STYLE, include_str!("console.css")),
    ("components.css", STYLE, include_str!("components.css")),
    ("console.js", SCRIPT, include_str!("console.js")),
    ("local_time.js", SCRIPT, include_str!("local_time.js")),
    (
        "field_problems.js",
        SCRIPT,
        include_str!("field_problems.js"),
    ),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
    ("htmx.min.js", SCRIPT, include_str!("vendor/htmx.min.js")),
    (
        "htmx-ext-sse.min.js",
        SCRIPT,
        include_str!("vendor/htmx-ext-sse.min.js"),
    ),
];

/// Routes the static files. They reveal nothing about the server, so they need no session.
pub fn configure_assets(config: &mut web::ServiceConfig) {
    for (name, content_type, content) in FILES {
        let file = web::get().to(move || {
            let response = page_response(POLICY)
                .content_type(content_type)
                .body(content);
            async { response }
        });
        config.service(single_method_resource(
            &format!("/assets/{name}"),
            Method::Get,
            file,
        ));
    }
}
