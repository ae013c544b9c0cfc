//! `/docs/api`: the viewer of the API's description, from which operations can be called where the API listener takes calls with a key
//! from the origin of this page: the origins of `http.console_origins`, and in `dev` its own admin listener.
//!
//! In `dev`, the viewer gets the key of the development project, as everyone who reaches that console may create one. It is data that only
//! a script of the same origin can read: as a script, pages of other origins could load it, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::http::header::{CACHE_CONTROL, ContentType};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::key::ApiKey;
use serde::Serialize;

use crate::http::api::spec::Method;
use crate::http::frame::hosts::requested_host;
use crate::http::page::page_response;
use crate::http::resource::single_method_resource;
use crate::http::state::AppState;

const PAGE: &str = include_str!("viewer.html");
const SCRIPT: &str = include_str!("viewer.js");
const STYLE: &str = include_str!("viewer.css");
/// The header by which browsers tell from where they send a request.
const FETCH_SITE: &str = "sec-fetch-site";

/// For each group of operations the page that explains it: group, title, URL.
const PAGES: [(&str, &str, &str); 13] = [
    ("rooms", "Rooms", "/docs/operations.html#rooms"),
    ("participants", "Roles", "/docs/operations.html#roles"),
    (
        "tokens",
        "Identities and room tokens",
        "/docs/operations.html#identities-and-room-tokens",
    ),
    ("templates", "Roles", "/docs/operations.html#roles"),
    ("roles", "Roles", "/docs/operations.html#roles"),
    (
        "destinations",
        "Destinations",
        "/docs/recordings.html#destinations",
    ),
    ("codes", "Room codes", "/docs/operations.html#room-codes"),
    (
        "recordings",
        "Recordings",
        "/docs/recordings.html#recordings",
    ),
    (
        "broadcasts",
        "Broadcasts",
        "/docs/recordings.html#broadcasts",
    ),
    ("ingress", "Encoders", "/docs/recordings.html#encoders"),
    ("sessions", "Clients", "/docs/clients.html"),
    ("usage", "Billing", "/docs/billing.html"),
    ("webhooks", "Webhooks", "/docs/webhooks.html"),
];

/// A page that explains a group of operations.
#[derive(Serialize)]
struct Explained {
    title: &'static str,
    url: &'static str,
}

/// What the viewer shows besides the description.
#[derive(Serialize)]
struct Settings<'a> {
    /// URL of the API, if it takes calls from the viewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    api: Option<&'a str>,
    /// The API key of `dev`.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    note: String,
    pages: BTreeMap<&'static str, Explained>,
}

/// Routes the viewer with its files.
pub(super) fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let (of_page, of_settings) = (Arc::clone(state), Arc::clone(state));
    let page = web::get().to(move |request: HttpRequest| {
        let policy = policy(callable(&of_page, &request));
        let response = page_response(&policy)
            .content_type(ContentType::html())
            .body(PAGE);
        async { response }
    });
    config.service(single_method_resource("/docs/api", Method::Get, page));
    let settings = web::get().to(move |request: HttpRequest| {
        let response = settings(&of_settings, &request);
        async { response }
    });
    config.service(single_method_resource(
        "/docs/api/settings.json",
        Method::Get,
        settings,
    ));
    for (path, kind, content) in [
        (
            "/docs/api/viewer.js",
            "text/javascript; charset=utf-8",
            SCRIPT,
        ),
        ("/docs/api/viewer.css", "text/css; charset=utf-8", STYLE),
    ] {
        let file = web::get().to(move || {
            let response = page_response(&policy(None))
                .content_type(kind)
                .body(content);
            async { response }
        });
        config.service(single_method_resource(path, Method::Get, file));
    }
}

/// What the browser may load, and from where. Swagger UI sets styles on its elements and draws icons from `data:` urls.
fn policy(api: Option<&str>) -> String {
    let api = api.map(|api| format!(" {api}")).unwrap_or_default();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
         connect-src 'self'{api}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// Returns the URL of the API, if it takes calls with a key from the origin of the page that was requested.
fn callable<'a>(state: &'a AppState, request: &HttpRequest) -> Option<&'a str> {
    state
        .checks
        .origins
        .admits_every_call(&state.admin.console.requested_origin(request)?)
        .then_some(&*state.api.url)
}

/// Returns the key of `dev`, for the viewer on this machine.
fn key<'a>(state: &'a AppState, request: &HttpRequest) -> Option<&'a ApiKey> {
    let site = request.headers().get(FETCH_SITE);
    let is_own = site.is_none_or(|site| site == "same-origin");
    let is_here = requested_host(request.headers()).is_some_and(|host| host.is_loopback());
    state.admin.dev_key.as_ref().filter(|_| is_own && is_here)
}

fn settings(state: &AppState, request: &HttpRequest) -> HttpResponse {
    let api = callable(state, request);
    let key = api.and_then(|_| key(state, request));
    let note = match (api, key) {
        (Some(api), Some(_)) => {
            format!(
                "“Try it out” calls {api} with the key of the project “dev”, which is filled in."
            )
        }
        (Some(api), None) => {
            format!("“Try it out” calls {api}. Click “Authorize” and enter an API key first.")
        }
        (None, _) => {
            let origin = state
                .admin
                .console
                .requested_origin(request)
                .unwrap_or_default();
            format!(
                "To call operations from here, list {origin} in the setting http.console_origins."
            )
        }
    };
    let pages = PAGES
        .into_iter()
        .map(|(group, title, url)| (group, Explained { title, url }))
        .collect();
    let settings = Settings {
        api,
        key: key.map(ApiKey::reveal),
        note,
        pages,
    };
    page_response(&policy(None))
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(settings)
}
