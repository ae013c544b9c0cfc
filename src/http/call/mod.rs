//! `/call`: a page that joins a call with a room code or a room token, in `dev` and with `http.call_page`. Its files, including the
//! client SDK, are compiled into the program; `page/main.js` lists their purposes. Pages of `http.embed_origins` may show it in a
//! frame, which `/embed.js` creates.
//!
//! This module has the files and their policies: sources that the browser may load from and connect to, device permissions, and pages
//! that may frame the page. [`endpoints`] has the page's endpoints.

pub mod effects;
mod endpoints;

use std::sync::Arc;

use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, ContentType, HeaderName,
};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::settings::TextSetting;
use url::{Url, form_urlencoded};

use self::effects::EffectFile;
use super::resource::{fixed_resource, framed_page_response, page_response};
use super::state::{AppState, CallPage};
use crate::config::{EmbedOrigin, Origin};

const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Routes the page, its files and its endpoints.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>, page: &CallPage) {
    // For files: only the page itself depends on the request's host.
    let policy: Arc<str> = policy(state.media_url.fixed(), page).into();
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
    for file in &page.effects {
        serve_effect(config, state, file, Arc::clone(&policy));
    }
    endpoints::configure_role(config, state);
    // Without allowed origins, nothing may frame the page, so the script would not work.
    if !page.embed_origins.is_empty() {
        embed(config, state, policy);
    }
    // In `dev` only: elsewhere, a room needs a credential.
    if let Some(project) = &page.dev_project {
        endpoints::configure_rooms(config, state, project);
    }
}

/// Routes the page itself.
fn show(config: &mut web::ServiceConfig, state: &Arc<AppState>, page: &CallPage, fixed: Arc<str>) {
    let (media_url, served) = (state.media_url.clone(), page.clone());
    let parents = list(&page.embed_origins);
    let is_dev = page.dev_project.is_some();
    // Rendered once: only the policy depends on the request.
    // Inserted as attributes of the page, because its policy allows no inline script.
    let text: web::Bytes = PAGE
        .replace("{dev}", &is_dev.to_string())
        .replace("{parents}", &parents)
        .replace("{modules}", &preloads())
        .replace("{effects}", &(!page.effects.is_empty()).to_string())
        .into();
    let shown = move |request: &HttpRequest| {
        // The browser would show an empty frame: `frame-ancestors` blocks without a reason.
        if let Some(parent) = parent(request).filter(|parent| {
            !served
                .embed_origins
                .iter()
                .any(|listed| listed.includes(parent))
        }) {
            return refused(&parent);
        }
        // The page connects to the URL in its token, which may depend on the request.
        let derived = media_url.derived(request).map(|url| policy(&url, &served));
        let policy = derived.as_deref().unwrap_or(&fixed);
        // With allowed origins, `X-Frame-Options` cannot be sent: it knows no list.
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

/// Returns links that make browsers load all modules at once, instead of each after the module that imports it.
fn preloads() -> String {
    let is_module = |name: &str| {
        name.ends_with(".js") && !CLASSIC.contains(&name) && !name.starts_with("refused")
    };
    let links = FILES
        .iter()
        .filter(|(name, _)| is_module(name))
        .map(|(name, _)| format!("<link rel=\"modulepreload\" href=\"/call/{name}\">"));
    links.collect()
}

/// Returns the origin of the framing page, as given by `/embed.js`.
fn parent(request: &HttpRequest) -> Option<Origin> {
    let (_, origin) = form_urlencoded::parse(request.query_string().as_bytes())
        .find(|(name, _)| name == "parent")?;
    Origin::parse(&origin).ok()
}

/// Responds with a page that explains, to the framing page's developer, why there is no call in the frame.
fn refused(parent: &Origin) -> HttpResponse {
    // Framed by the refused origin, so that the explanation is displayed at all.
    framed_page_response(&refused_policy(parent))
        .content_type(ContentType::html())
        .body(REFUSED.replace("{origin}", parent.as_str()))
}

/// Routes the script for other pages. It is public, so that pages with `crossorigin`, `integrity` or cross-origin isolation may load
/// it.
fn embed(config: &mut web::ServiceConfig, state: &Arc<AppState>, policy: Arc<str>) {
    let script = move |_: &HttpRequest| {
        page_response(&policy)
            .insert_header((ACCESS_CONTROL_ALLOW_ORIGIN, "*"))
            // For pages with `Cross-Origin-Embedder-Policy: require-corp`.
            .insert_header((CROSS_ORIGIN_RESOURCE_POLICY, "cross-origin"))
            .content_type(JAVASCRIPT)
            .body(EMBED)
    };
    config.service(fixed_resource("/embed.js", &state.checks.fixed, script));
}

/// Routes a file of the library for background blur. Browsers keep it for a day: it is large, and changes with the operator's copy.
fn serve_effect(
    config: &mut web::ServiceConfig,
    state: &Arc<AppState>,
    file: &EffectFile,
    policy: Arc<str>,
) {
    let served = file.clone();
    let respond = move |_: &HttpRequest| {
        page_response(&policy)
            .insert_header((CACHE_CONTROL, "public, max-age=86400"))
            .content_type(served.content_type)
            .body(served.content.clone())
    };
    config.service(fixed_resource(
        &format!("/call/effects/{}", file.name),
        &state.checks.fixed,
        respond,
    ));
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "json")) => "application/json",
        // Browsers run a module only with a JavaScript type.
        _ => JAVASCRIPT,
    }
}

/// HTML of `/call`, which loads the other files.
const PAGE: &str = include_str!("page/page.html");
/// HTML for a frame on a page that may not show the call.
const REFUSED: &str = include_str!("page/refused.html");
/// Script that defines `<conclave-call>` in other pages.
const EMBED: &str = include_str!("embed.js");

/// File below `/call/`, from a folder beside this module.
macro_rules! file {
    ($folder:literal, $name:literal) => {
        ($name, include_str!(concat!($folder, "/", $name)))
    };
}

/// Files that the page loads: name, content.
const FILES: [(&str, &str); 54] = [
    file!("page", "page.css"),
    file!("page", "lobby.css"),
    file!("page", "call.css"),
    file!("page", "panels.css"),
    file!("page", "main.js"),
    file!("page", "arrivals.js"),
    file!("page", "blur.js"),
    file!("page", "call.js"),
    file!("page", "chat.js"),
    file!("page", "controls.js"),
    file!("page", "details.js"),
    file!("page", "devices.js"),
    file!("page", "dialogs.js"),
    file!("page", "dom.js"),
    file!("page", "end.js"),
    file!("page", "ending.js"),
    file!("page", "errors.js"),
    file!("page", "hands.js"),
    file!("page", "icons.js"),
    file!("page", "layout.js"),
    file!("page", "links.js"),
    file!("page", "liveness.js"),
    file!("page", "lobby.js"),
    file!("page", "memory.js"),
    file!("page", "moderation.js"),
    file!("page", "names.js"),
    file!("page", "notices.js"),
    file!("page", "old.js"),
    file!("page", "order.js"),
    file!("page", "pages.js"),
    file!("page", "panels.js"),
    file!("page", "parent.js"),
    file!("page", "people.js"),
    file!("page", "reactions.js"),
    file!("page", "recording.js"),
    file!("page", "refused.js"),
    file!("page", "screen.js"),
    file!("page", "server.js"),
    file!("page", "shortcuts.js"),
    file!("page", "sound.js"),
    file!("page", "stage.js"),
    file!("page", "styles.js"),
    file!("page", "talking.js"),
    file!("page", "texts.js"),
    file!("page", "tile.js"),
    file!("page", "timer.js"),
    // The one classic script: LiveKit's client is a UMD bundle.
    file!("vendor", "livekit-client.umd.js"),
    file!("page", "ar.json"),
    file!("page", "de.json"),
    file!("page", "en.json"),
    file!("page", "es.json"),
    file!("page", "fr.json"),
    file!("page", "pt.json"),
    file!("page", "sw.json"),
];

/// Scripts among [`FILES`] that are not modules.
const CLASSIC: [&str; 2] = ["livekit-client.umd.js", "old.js"];

/// `Permissions-Policy` of the page: the devices and features that it uses. Frames inside the page get none; a page that frames it
/// must allow them there, as `/embed.js` does.
const DEVICES: &str = "camera=(self), microphone=(self), display-capture=(self), speaker-selection=(self), autoplay=(self), \
                           fullscreen=(self), clipboard-write=(self), geolocation=(), payment=(), usb=()";

/// Returns the content security policy: files of this server, connections to it and to the media plane, and framing by
/// `embed_origins`. Only the background blur library compiles WebAssembly.
fn policy(media_url: &str, page: &CallPage) -> String {
    let media = media_origins(media_url).unwrap_or_default();
    let ancestors = if page.embed_origins.is_empty() {
        "'none'".to_owned()
    } else {
        list(&page.embed_origins)
    };
    let scripts = if page.effects.is_empty() {
        "'self'"
    } else {
        "'self' 'wasm-unsafe-eval'"
    };
    format!(
        // `data:` for the page's empty icon.
        "default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:; media-src 'self' blob:; \
         connect-src 'self'{media}; base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
    )
}

/// Returns the policy of the page for a frame of another origin. Nothing in it can be clicked, so clickjacking gains nothing.
fn refused_policy(parent: &Origin) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors {}",
        parent.as_str()
    )
}

/// Joins the origins with spaces.
fn list(origins: &[EmbedOrigin]) -> String {
    let texts: Vec<_> = origins.iter().map(EmbedOrigin::as_str).collect();
    texts.join(" ")
}

/// Returns the origins of a WebSocket URL: for the WebSocket, and for the client SDK's HTTP requests to the same host.
fn media_origins(media_url: &str) -> Option<String> {
    let url = Url::parse(media_url).ok()?;
    let (host, port) = (
        url.host_str()?,
        url.port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default(),
    );
    let schemes = if url.scheme() == "wss" {
        ["wss", "https"]
    } else {
        ["ws", "http"]
    };
    // The SDK requests `/rtc/validate` by HTTP at the same host, after a failed WebSocket.
    Some(
        schemes
            .map(|scheme| format!(" {scheme}://{host}{port}"))
            .concat(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(origins: &[EmbedOrigin]) -> CallPage {
        CallPage {
            dev_project: None,
            embed_origins: origins.to_vec(),
            effects: Vec::new(),
        }
    }

    #[test]
    fn the_page_may_connect_to_the_media_plane_and_nowhere_else() {
        let connects = |url: &str| {
            let policy = policy(url, &page(&[]));
            policy
                .split("; ")
                .find_map(|part| part.strip_prefix("connect-src "))
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            connects("ws://127.0.0.1:8080"),
            "'self' ws://127.0.0.1:8080 http://127.0.0.1:8080"
        );
        assert_eq!(
            connects("wss://media.example.org/sfu"),
            "'self' wss://media.example.org https://media.example.org"
        );
        assert_eq!(
            connects("ws://[::1]:7880"),
            "'self' ws://[::1]:7880 http://[::1]:7880"
        );
    }

    #[test]
    fn only_the_given_origins_may_show_the_page_in_a_frame() {
        let ancestors = |origins: &[&str]| {
            let origins: Vec<_> = origins
                .iter()
                .map(|origin| EmbedOrigin::parse(origin).unwrap())
                .collect();
            policy("ws://127.0.0.1:8080", &page(&origins))
                .rsplit_once("frame-ancestors ")
                .unwrap()
                .1
                .to_owned()
        };
        assert_eq!(ancestors(&[]), "'none'");
        assert_eq!(
            ancestors(&["https://a.org", "http://localhost:3000"]),
            "https://a.org http://localhost:3000"
        );
    }
}
