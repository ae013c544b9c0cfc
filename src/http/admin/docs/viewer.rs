//! `/docs/api`: Swagger UI with the description of the API. It calls operations where the API listener takes calls with a key from the
//! origin of this page: the origins of `http.console_origins`, and in `dev` its own admin listener.
//!
//! The files of Swagger UI are in the archive of the crate `utoipa-swagger-ui-vendored`. They stay compressed: gzip wraps the same
//! streams as a zip archive.
//!
//! In `dev`, the viewer gets the key of the development project, as everyone who reaches that console may create one. It is data that only
//! a script of the same origin can read: as a script, pages of other origins could load it, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::http::header::{CACHE_CONTROL, ContentType};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::key::ApiKey;
use serde::Serialize;
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED as ARCHIVE;

use crate::http::api::spec::Method;
use crate::http::frame::origins::requested_host;
use crate::http::resource::{page_response, single_method_resource};
use crate::http::state::AppState;

/// How a file's entry in the directory of the archive begins, and the end of that directory.
const ENTRY: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
/// Bytes of an entry, and of the header before a file, without what has no fixed length.
const ENTRY_LEN: usize = 46;
const HEADER_LEN: usize = 30;
/// The method of compression that gzip has too.
const DEFLATE: usize = 8;
/// The header of gzip, with no time and no name.
static GZIP: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// A file of the viewer.
pub struct File {
    /// Its content, or that in gzip, in parts of the archive.
    pub parts: [&'static [u8]; 4],
    /// Whether they are compressed by gzip.
    pub is_gzip: bool,
}

/// Returns the file of this name.
pub fn file(name: &str) -> Option<File> {
    let end = ARCHIVE.windows(END.len()).rposition(|bytes| bytes == END)?;
    let mut entry = ARCHIVE.get(number::<4>(ARCHIVE, end + 16)?..end)?;
    while entry.starts_with(ENTRY) {
        let [path, extra, comment] = [
            number::<2>(entry, 28)?,
            number::<2>(entry, 30)?,
            number::<2>(entry, 32)?,
        ];
        let found = std::str::from_utf8(entry.get(ENTRY_LEN..ENTRY_LEN + path)?).ok()?;
        // All files are in one folder, whose name has the version.
        if found
            .split_once('/')
            .and_then(|(_, path)| path.strip_prefix("dist/"))
            == Some(name)
        {
            return read(entry);
        }
        entry = entry.get(ENTRY_LEN + path + extra + comment..)?;
    }
    None
}

fn read(entry: &'static [u8]) -> Option<File> {
    let header = ARCHIVE.get(number::<4>(entry, 42)?..)?;
    let begin = HEADER_LEN + number::<2>(header, 26)? + number::<2>(header, 28)?;
    let content = header.get(begin..begin + number::<4>(entry, 20)?)?;
    let is_gzip = number::<2>(entry, 10)? == DEFLATE;
    // Both formats end with the checksum and the length of what was compressed.
    let (checksum, length) = (entry.get(16..20)?, entry.get(24..28)?);
    let parts = if is_gzip {
        [&GZIP, content, checksum, length]
    } else {
        [content, &[], &[], &[]]
    };
    Some(File { parts, is_gzip })
}

/// Reads a number of this many bytes.
fn number<const LEN: usize>(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + LEN)?.iter().rev();
    Some(bytes.fold(0, |number, byte| (number << 8) | usize::from(*byte)))
}

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
