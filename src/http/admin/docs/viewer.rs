//! `/docs/api`: Swagger UI with the API's description. It can call operations if the API listener accepts calls with a key from this
//! page's origin: the origins of `http.console_origins`, and in `dev` its own admin listener.
//!
//! Swagger UI's files are in the archive of the crate `utoipa-swagger-ui-vendored`. They stay compressed: gzip wraps the same deflate
//! stream as a zip archive.
//!
//! In `dev`, the viewer gets the development project's key, since everyone who reaches that console may create one. The key is served
//! as JSON, which only scripts of the same origin can read; a script file could be loaded by pages of other origins, too.

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

/// Signatures of an entry in the archive's central directory, and of the record at its end.
const ENTRY: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
/// Lengths in bytes of the fixed part of a directory entry, and of the header before a file.
const ENTRY_LEN: usize = 46;
const HEADER_LEN: usize = 30;
/// Compression method that gzip uses, too.
const DEFLATE: usize = 8;
/// Gzip header without time and name (RFC 1952, section 2.3).
// The third byte is the method, deflate; the last one means an unknown operating system.
static GZIP: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Viewer file.
pub struct File {
    /// Content, or its gzip form, as slices of the archive.
    pub parts: [&'static [u8]; 4],
    /// Whether the content is compressed with gzip.
    pub is_gzip: bool,
}

/// Returns a file by its name.
pub fn file(name: &str) -> Option<File> {
    // A zip archive is read from its end, where the directory's offset is (field at byte 16 of the end record).
    // The last match, because a file may contain the same bytes.
    let end = ARCHIVE.windows(END.len()).rposition(|bytes| bytes == END)?;
    let mut entry = ARCHIVE.get(number::<4>(ARCHIVE, end + 16)?..end)?;
    while entry.starts_with(ENTRY) {
        let [path, extra, comment] = [
            number::<2>(entry, 28)?,
            number::<2>(entry, 30)?,
            number::<2>(entry, 32)?,
        ];
        let found = std::str::from_utf8(entry.get(ENTRY_LEN..ENTRY_LEN + path)?).ok()?;
        // All files are in one folder with the version in its name.
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
    // The lengths in the local header count: its extra field may differ from the directory's.
    let begin = HEADER_LEN + number::<2>(header, 26)? + number::<2>(header, 28)?;
    let content = header.get(begin..begin + number::<4>(entry, 20)?)?;
    let is_gzip = number::<2>(entry, 10)? == DEFLATE;
    // Both formats end with checksum and length before compression.
    let (checksum, length) = (entry.get(16..20)?, entry.get(24..28)?);
    let parts = if is_gzip {
        [&GZIP, content, checksum, length]
    } else {
        // A file that compression would enlarge is stored as it is.
        [content, &[], &[], &[]]
    };
    Some(File { parts, is_gzip })
}

/// Reads a little-endian number with `LEN` bytes.
fn number<const LEN: usize>(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + LEN)?.iter().rev();
    Some(bytes.fold(0, |number, byte| (number << 8) | usize::from(*byte)))
}

const PAGE: &str = include_str!("viewer.html");
const SCRIPT: &str = include_str!("viewer.js");
const STYLE: &str = include_str!("viewer.css");
/// Header with the relation between a request's initiator and its target (Fetch Metadata).
// Sent by browsers only, and not changeable by scripts.
const FETCH_SITE: &str = "sec-fetch-site";

/// Documentation page for each operation group: group, title, URL.
const PAGES: [(&str, &str, &str); 15] = [
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
    (
        "identities",
        "Personal data",
        "/docs/tenants.html#personal-data",
    ),
    ("usage", "Billing", "/docs/billing.html"),
    (
        "events",
        "Event history",
        "/docs/webhooks.html#event-history",
    ),
    ("webhooks", "Webhooks", "/docs/webhooks.html"),
];

/// Documentation page for an operation group.
#[derive(Serialize)]
struct Explained {
    title: &'static str,
    url: &'static str,
}

/// Data for the viewer besides the description.
#[derive(Serialize)]
struct Settings<'a> {
    /// The API's URL, if it accepts calls from the viewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    api: Option<&'a str>,
    /// The development project's API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    note: String,
    pages: BTreeMap<&'static str, Explained>,
}

/// Routes the viewer with its files.
pub(super) fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let (page_state, settings_state) = (Arc::clone(state), Arc::clone(state));
    let page = web::get().to(move |request: HttpRequest| {
        let policy = policy(callable(&page_state, &request));
        let response = page_response(&policy)
            .content_type(ContentType::html())
            .body(PAGE);
        async { response }
    });
    config.service(single_method_resource("/docs/api", Method::Get, page));
    let settings = web::get().to(move |request: HttpRequest| {
        let response = settings(&settings_state, &request);
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

/// Returns the content security policy. Swagger UI sets styles on its elements and draws icons from `data:` URLs.
fn policy(api: Option<&str>) -> String {
    let api = api.map(|api| format!(" {api}")).unwrap_or_default();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
         connect-src 'self'{api}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// Returns the API's URL, if it accepts calls with a key from the requested page's origin.
fn callable<'a>(state: &'a AppState, request: &HttpRequest) -> Option<&'a str> {
    state
        .checks
        .origins
        .admits_every_call(&state.admin.console.requested_origin(request)?)
        .then_some(&*state.api.url)
}

/// Returns the development project's key, for the viewer on this machine.
fn key<'a>(state: &'a AppState, request: &HttpRequest) -> Option<&'a ApiKey> {
    let site = request.headers().get(FETCH_SITE);
    // Older browsers and curl do not send the header; a cross-origin page could not read the response anyway.
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
        // The settings may contain the key.
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(settings)
}
