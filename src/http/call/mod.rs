//! `/call`: a page that joins a call with a room code, in `dev` and with `http.call_page`. Its files, the client SDK included, are
//! part of the program.
//!
//! - [`rooms`]: in `dev`, a room and a code for whoever opens the page on this machine.
//!
//! The page's policy lets the browser load and connect to nothing but this server and the media plane.

mod rooms;

use std::sync::Arc;

use actix_web::http::header::ContentType;
use actix_web::web;
use url::Url;

use super::page::page_response;
use super::resource::single_method_resource;
use super::spec::Method;
use super::state::{AppState, CallPage};

const PAGE: &str = include_str!("page.html");
/// The files of the page: name, content type, content.
const FILES: [(&str, &str, &str); 6] = [
    ("page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("page.js")),
    ("grid.js", "text/javascript; charset=utf-8", include_str!("grid.js")),
    ("chat.js", "text/javascript; charset=utf-8", include_str!("chat.js")),
    ("names.js", "text/javascript; charset=utf-8", include_str!("names.js")),
    ("livekit-client.umd.js", "text/javascript; charset=utf-8", include_str!("vendor/livekit-client.umd.js")),
];

/// Routes the page and its files.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>, page: &CallPage) {
    let text: web::Bytes = PAGE.replace("{dev}", if page.dev_project.is_some() { "true" } else { "false" }).into();
    let policy: Arc<str> = policy(&state.media_url).into();
    let shown = web::get().to({
        let policy = Arc::clone(&policy);
        move || {
            let response = page_response(&policy).content_type(ContentType::html()).body(text.clone());
            async { response }
        }
    });
    config.service(single_method_resource("/call", Method::Get, shown));
    for (name, content_type, content) in FILES {
        let policy = Arc::clone(&policy);
        let file = web::get().to(move || {
            let response = page_response(&policy).content_type(content_type).body(content);
            async { response }
        });
        config.service(single_method_resource(&format!("/call/{name}"), Method::Get, file));
    }
    if let Some(project) = &page.dev_project {
        rooms::configure(config, state, project);
    }
}

/// What the browser may load, and from where: files of this server; connections to it and to the media plane.
fn policy(media_url: &str) -> String {
    let media = media_origins(media_url).unwrap_or_default();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob:; \
         connect-src 'self'{media}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// The origin of a websocket url, for the websocket and for the requests that the client SDK makes beside it.
fn media_origins(media_url: &str) -> Option<String> {
    let url = Url::parse(media_url).ok()?;
    let (host, port) = (url.host_str()?, url.port().map(|port| format!(":{port}")).unwrap_or_default());
    let schemes = if url.scheme() == "wss" { ["wss", "https"] } else { ["ws", "http"] };
    Some(schemes.map(|scheme| format!(" {scheme}://{host}{port}")).concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_may_connect_to_the_media_plane_and_nowhere_else() {
        let connects = |url: &str| {
            let policy = policy(url);
            policy.split("; ").find_map(|part| part.strip_prefix("connect-src ")).unwrap().to_owned()
        };
        assert_eq!(connects("ws://127.0.0.1:8080"), "'self' ws://127.0.0.1:8080 http://127.0.0.1:8080");
        assert_eq!(connects("wss://media.example.org/sfu"), "'self' wss://media.example.org https://media.example.org");
        assert_eq!(connects("ws://[::1]:7880"), "'self' ws://[::1]:7880 http://[::1]:7880");
    }
}
