//! `/call`: a page that joins a call with a room code or a room token, in `dev` and with `http.call_page`. Its files, the client SDK
//! included, are part of the program. Pages of `http.embed_origins` may show it in a frame, which `/embed.js` makes.
//!
//! - [`files`]: the files of the page; `page/main.js` says what each is for.
//! - [`policy`]: what the browser may load, connect to and use, and which pages may show the page in a frame.
//! - [`role`]: `/call/role`, what the holder of a room token may do to others.
//! - [`rooms`]: in `dev`, a room and a code for whoever opens the page on this machine.

mod files;
mod policy;
mod role;
mod rooms;

use std::sync::Arc;

use actix_web::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ContentType, HeaderName};
use actix_web::{HttpRequest, web};

use self::files::{EMBED, FILES, PAGE};
use self::policy::{DEVICES, policy};
use super::page::{framed_page_response, page_response};
use super::resource::fixed_resource;
use super::state::{AppState, CallPage};

const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Routes the page, its files and its endpoints.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>, page: &CallPage) {
    let policy: Arc<str> = policy(state.media_url.fixed(), &page.embed_origins).into();
    show(config, state, page, Arc::clone(&policy));
    for (name, content) in FILES {
        let policy = Arc::clone(&policy);
        let file = move |_: &HttpRequest| {
            page_response(&policy)
                .content_type(content_type(name))
                .body(content)
        };
        config.service(fixed_resource(
            &format!("/call/{name}"),
            &state.checks.fixed,
            file,
        ));
    }
    role::configure(config, state);
    if !page.embed_origins.is_empty() {
        embed(config, state, policy);
    }
    if let Some(project) = &page.dev_project {
        rooms::configure(config, state, project);
    }
}

/// Routes the page itself.
fn show(config: &mut web::ServiceConfig, state: &Arc<AppState>, page: &CallPage, fixed: Arc<str>) {
    let (media_url, embed_origins) = (state.media_url.clone(), page.embed_origins.clone());
    let parents = page.embed_origins.join(" ");
    let is_dev = page.dev_project.is_some();
    let text: web::Bytes = PAGE
        .replace("{dev}", &is_dev.to_string())
        .replace("{parents}", &parents)
        .into();
    let shown = move |request: &HttpRequest| {
        // The page connects to the url that its token names, which may depend on the request.
        let derived = media_url
            .derived(request)
            .map(|url| policy(&url, &embed_origins));
        let policy = derived.as_deref().unwrap_or(&fixed);
        let mut response = if parents.is_empty() {
            page_response(policy)
        } else {
            framed_page_response(policy)
        };
        response
            .insert_header((PERMISSIONS_POLICY, DEVICES))
            .content_type(ContentType::html())
            .body(text.clone())
    };
    config.service(fixed_resource("/call", &state.checks.fixed, shown));
}

/// Routes the script that other pages load. It is public, so that a page with `crossorigin`, `integrity` or isolation may load it, too.
fn embed(config: &mut web::ServiceConfig, state: &Arc<AppState>, policy: Arc<str>) {
    let script = move |_: &HttpRequest| {
        page_response(&policy)
            .insert_header((ACCESS_CONTROL_ALLOW_ORIGIN, "*"))
            .insert_header((CROSS_ORIGIN_RESOURCE_POLICY, "cross-origin"))
            .content_type(JAVASCRIPT)
            .body(EMBED)
    };
    config.service(fixed_resource("/embed.js", &state.checks.fixed, script));
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "json")) => "application/json",
        _ => JAVASCRIPT,
    }
}
