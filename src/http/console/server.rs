//! Server page: version, parts, the servers that share the database, and the effective settings with their sources.
//!
//! A standby's console is one page, about the servers that share the database: the active one, and possible successors. A
//! standby has no records to show.

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_db::lease::{ClusterState, Node};
use conclave_media::embedded::EmbeddedPlane;
use maud::{Markup, html};

use super::layout::{self, PagePosition};
use super::parts::{badge, facts, or_nothing, table};
use super::route::{self, Route};
use super::sign_in;
use super::visit::{self, PageResult, Visit};
use crate::backups::Backups;
use crate::config::EffectiveSetting;
use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::console;
use crate::http::lease::LeaseView;
use crate::http::resource::single_method_resource;
use crate::http::state::StandbyState;

pub fn routes() -> Vec<Route> {
    vec![route::page("/server", show)]
}

async fn show(visit: Visit) -> PageResult {
    let state = &visit.state;
    let changed = state
        .admin
        .settings
        .iter()
        // A setting without an origin has its default.
        .filter(|setting| setting.origin.is_some())
        .count();
    let content = html! {
        h1 { "Server" }
        (facts(&[
            ("Version", html! { (env!("CARGO_PKG_VERSION")) }),
            ("Records", html! { (state.store.location()) }),
            ("Media plane", html! { (if state.planes.livekit.is_some() { "LiveKit" } else { "embedded" }) }),
            ("Clients connect to", html! { (visit.media_url()) }),
            ("TURN server", html! { (turn(state.planes.signalling.as_ref())) }),
            ("Certificate", html! { (state.api.tls.as_ref().map_or_else(|| "none: plain HTTP".to_owned(), ToString::to_string)) }),
            ("Recordings", html! { (state.admin.recordings.display()) }),
            ("Backups", html! { (backups(state.admin.backups.as_ref())) }),
            ("Settings that are not defaults", html! { (changed) }),
        ]))
        @if let Some(lease) = &state.lease { (section(lease)) }
        h2 { "Effective settings" }
        p.help { "Secrets are shown as ***. A later source overrides an earlier one: default, file, environment, option." }
        (table("Effective settings", &["Setting", "Value", "From"], &state.admin.settings.iter().map(row).collect::<Vec<_>>()))
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Server("/server"),
        "Server",
        &content,
    )))
}

fn turn(plane: Option<&EmbeddedPlane>) -> String {
    let urls = plane.map(EmbeddedPlane::own_turn_urls).unwrap_or_default();
    if urls.is_empty() {
        "none: media.rtc.turn.server is off".to_owned()
    } else {
        urls.join(", ")
    }
}

fn backups(backups: Option<&Backups>) -> String {
    backups.map_or_else(
        || "none: backup.directory is not set".to_owned(),
        |backups| format!("{backups}, in {}", backups.directory().path().display()),
    )
}

fn row(setting: &EffectiveSetting) -> Vec<Markup> {
    vec![
        html! { code { (setting.name) } },
        or_nothing(Some(setting.text()).filter(|text| !text.is_empty())),
        setting.origin.as_ref().map_or_else(
            || html! { span.none { "default" } },
            |origin| html! { strong { (origin) } },
        ),
    ]
}

/// Renders the section about the servers that share the database.
pub fn section(lease: &LeaseView) -> Markup {
    let cluster = lease.cluster();
    let active = cluster.as_ref().and_then(ClusterState::active);
    let rows: Vec<_> = cluster
        .iter()
        .flat_map(|cluster| &cluster.nodes)
        .map(node_row)
        .collect();
    html! {
        h2 { "Servers of the database" }
        (facts(&[
            ("This server", badge(lease.role().as_str())),
            ("Active server", or_nothing(active.map(|node| &node.info.url))),
            ("Epoch", or_nothing(lease.epoch(cluster.as_ref()))),
            ("Last renewal", or_nothing(lease.renewal_age_ms().map(|age| format!("{} s ago", seconds(age))))),
        ]))
        @if let Some(obstacle) = lease.obstacle() {
            p.note.bad { strong { "This server does not take over: " } (obstacle) }
        }
        (table("Servers of the database", &["Server", "Role", "Version", "Schema", "Encryption keys", "Media key", "Last seen"], &rows))
    }
}

fn node_row(node: &Node) -> Vec<Markup> {
    let age = u64::try_from(node.age.as_millis()).unwrap_or(u64::MAX);
    vec![
        html! { @match &node.info.admin_url {
            // The other server's console, as this one has no data of it.
            Some(console) => a href=(console) { (node.info.url) },
            None => (node.info.url),
        } },
        badge(node.role.as_str()),
        html! { (node.info.version) },
        html! { (node.schema) },
        html! { code { (node.keys.encryption.join(" ")) } },
        html! { code { (node.keys.media) } },
        html! { (seconds(age)) " s ago" },
    ]
}

/// Formats milliseconds as seconds with one decimal.
fn seconds(milliseconds: u64) -> String {
    format!("{}.{}", milliseconds / 1_000, milliseconds % 1_000 / 100)
}

/// Routes a standby's page, and sign-in and sign-out.
pub fn configure_standby(config: &mut web::ServiceConfig, state: &Arc<StandbyState>) {
    console::configure_assets(config);
    sign_in::configure(config, state);
    // Both paths, as on an active server.
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
            layout::standby_page(&operator, &content(state)),
        ),
        None => route::refuse_without_session(state, request),
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
            "This server is a standby. Another server is active, and this one can take over from it. "
            @if let Some(console) = console { a href=(console) { "The console of the active server" } }
            @else { "The console of the active server shows what is live." }
        }
        (section(&state.lease))
    }
}

async fn sign_out(
    state: &StandbyState,
    request: &HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let Some(operator) = state.console.operator(request) else {
        return route::refuse_without_session(state, request);
    };
    match route::form(state, request, payload, &operator.csrf).await {
        Ok(_) => sign_in::end_session(state, request),
        Err(error) => ApiError::to_http(&error),
    }
}
