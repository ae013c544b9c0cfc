//! `/sdk/`: SDK packages for package managers, and a page with the commands that install them from this server.
//!
//! Neither needs a session or the admin token: package managers send none, and the SDKs are public. The packages have this program's
//! version. `sdk/pack` writes the archives, which are checked in, so that building the program needs no other language; `scripts/check
//! sdks` compares them with the sources.

use std::sync::{Arc, LazyLock};

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, ETag, EntityTag};
use actix_web::web::{self, Bytes};
use actix_web::{HttpRequest, HttpResponse};
use conclave_model::{ErrorCode, Problem};
use maud::{Markup, html};
use sha2::{Digest, Sha256};

use super::parts::grouped;
use super::{layout, visit};
use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::resource::{self, page_response, single_method_resource};
use crate::http::state::AppState;

/// Responds with the page, whose commands use the host of the request.
pub fn respond(state: &AppState, request: &HttpRequest) -> HttpResponse {
    let Some(origin) = origin(state, request) else {
        let message = "the Host header must name the server";
        return ApiError::from(Problem::new(ErrorCode::InvalidRequest, message)).to_http();
    };
    let operator = state.admin.console.operator(request);
    let page = layout::open_page(operator.as_ref(), FOLDER, "SDKs", &content(&sdks(&origin)));
    visit::html(StatusCode::OK, page)
}

/// Returns the origin of the request, such as `http://127.0.0.1:8081`; `None` if it contains characters with a meaning to a shell,
/// into which the commands are pasted.
fn origin(state: &AppState, request: &HttpRequest) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]/".contains(&byte);
    state
        .admin
        .console
        .requested_origin(request)
        .filter(|origin| origin.bytes().all(is_plain))
}

fn content(sdks: &[Sdk]) -> Markup {
    html! {
        h1 { "SDKs" }
        p {
            "Packages with this server's version, " (VERSION) ". Packages for servers read the API's URL and a key from the variables "
            code { "CONCLAVE_URL" } " and " code { "CONCLAVE_KEY" } "."
        }
        @for sdk in sdks { (card(sdk)) }
    }
}

fn card(sdk: &Sdk) -> Markup {
    let id = sdk.language.to_lowercase();
    let name = sdk.archive.rsplit('/').next().unwrap_or_default();
    let kilobytes = |archive: &PackageFile| {
        grouped(i64::try_from(archive.content.len().div_ceil(1_000)).unwrap_or_default())
    };
    html! {
        section.card aria-labelledby={ "of-" (id) } {
            h2 id={ "of-" (id) } { (sdk.language) }
            p.copy {
                code id=(id) { (sdk.install) }
                button type="button" data-copy={ "#" (id) } aria-label={ "Copy the command for " (sdk.language) } { "Copy" }
            }
            p {
                a href=(sdk.readme) { "Documentation" }
                @if let Some(archive) = PackageFile::find(&sdk.archive) {
                    " · " a href={ (FOLDER) (archive.path) } { (name) } " (" (kilobytes(archive)) " KB), SHA-256 " code { (archive.sha256) }
                }
            }
        }
    }
}

macro_rules! package {
    ($name:literal) => {
        include_bytes!(concat!("../../../sdk/packages/", $name))
    };
}

/// Version of the packages, which is the program's.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The packages' path prefix on the admin listener.
pub const FOLDER: &str = "/sdk/";

const TYPESCRIPT: &[u8] = package!("conclave-sdk.tgz");
const REACT: &[u8] = package!("conclave-react.tgz");
const PYTHON: &[u8] = package!("conclave_sdk.whl");
const GO: &[u8] = package!("conclave-sdk-go.zip");
const GO_MOD: &str = include_str!("../../../sdk/packages/conclave-sdk-go.mod");

const GZIP: &str = "application/gzip";
const ZIP: &str = "application/zip";
/// Media type of wheels, as on PyPI.
const BINARY: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// File that a package manager downloads.
struct PackageFile {
    /// Path below [`FOLDER`].
    pub path: String,
    /// Media type.
    pub content_type: &'static str,
    /// Content.
    pub content: Bytes,
    /// SHA-256 of the content in lower-case hex.
    pub sha256: String,
}

/// SDK with its installation.
pub struct Sdk {
    /// Language or framework.
    pub language: &'static str,
    /// Whether it is for servers; otherwise it is for web pages.
    pub is_for_servers: bool,
    /// Command that installs it from this server.
    pub install: String,
    /// Path of the downloaded archive, below [`FOLDER`].
    pub archive: String,
    /// Path of the documentation on the admin listener.
    pub readme: &'static str,
}

static FILES: LazyLock<Vec<PackageFile>> = LazyLock::new(|| {
    let version = format!("v{VERSION}");
    let latest = format!(r#"{{"Version":"{version}"}}"#);
    let module = |end: &str| format!("go/{}/{end}", escaped(go_module()));
    vec![
        PackageFile::new("conclave-sdk.tgz".into(), GZIP, TYPESCRIPT),
        PackageFile::new(format!("conclave-sdk-{VERSION}.tgz"), GZIP, TYPESCRIPT),
        PackageFile::new("conclave-react.tgz".into(), GZIP, REACT),
        PackageFile::new(format!("conclave-react-{VERSION}.tgz"), GZIP, REACT),
        // pip reads the version from the file name.
        PackageFile::new(wheel(), BINARY, PYTHON),
        // The module proxy protocol: https://go.dev/ref/mod#goproxy-protocol.
        PackageFile::new(module("@v/list"), TEXT, format!("{version}\n")),
        PackageFile::new(module(&format!("@v/{version}.info")), JSON, latest.clone()),
        PackageFile::new(module(&format!("@v/{version}.mod")), TEXT, GO_MOD),
        PackageFile::new(go_archive(), ZIP, GO),
        PackageFile::new(module("@latest"), JSON, latest),
    ]
});

impl PackageFile {
    fn new(path: String, content_type: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        let sha256 = Sha256::digest(&content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            path,
            content_type,
            content,
            sha256,
        }
    }

    /// Returns the file at a path below [`FOLDER`].
    pub fn find(path: &str) -> Option<&'static Self> {
        FILES.iter().find(|file| file.path == path)
    }
}

/// Returns the SDKs with the commands that install them from the admin listener at `origin`, such as `http://127.0.0.1:8081`.
pub fn sdks(origin: &str) -> Vec<Sdk> {
    let (module, wheel) = (go_module(), wheel());
    // The variables are set for this command only. This server is the first proxy, which has only this module; Go skips the public
    // checksum database, which cannot know it.
    let repository = module.strip_suffix("/sdk/go").unwrap_or(module);
    let go = format!(
        "GOPROXY={origin}{FOLDER}go,$(go env GOPROXY) GONOSUMDB={repository} go get {module}"
    );
    let npm = |name: &str| format!("npm install {origin}{FOLDER}{name}.tgz");
    let npm_archive = |name: &str| format!("{name}-{VERSION}.tgz");
    let sdk = |language, is_for_servers, install, archive, readme| Sdk {
        language,
        is_for_servers,
        install,
        archive,
        readme,
    };
    let pip = format!("pip install {origin}{FOLDER}{wheel}");
    vec![
        sdk(
            "TypeScript",
            true,
            npm("conclave-sdk"),
            npm_archive("conclave-sdk"),
            "/sdk/typescript/README.md",
        ),
        sdk("Python", true, pip, wheel, "/sdk/python/README.md"),
        sdk("Go", true, go, go_archive(), "/sdk/go/README.md"),
        sdk(
            "React",
            false,
            npm("conclave-react"),
            npm_archive("conclave-react"),
            "/sdk/react/README.md",
        ),
    ]
}

fn wheel() -> String {
    format!("conclave_sdk-{VERSION}-py3-none-any.whl")
}

fn go_archive() -> String {
    format!("go/{}/@v/v{VERSION}.zip", escaped(go_module()))
}

/// Returns the Go module's path, as set in `sdk/go-module`.
fn go_module() -> &'static str {
    GO_MOD.split_whitespace().nth(1).unwrap_or_default()
}

/// Escapes a module's path as in Go's requests: `!` and a lower-case letter stand for an upper-case letter, since some file systems
/// ignore case.
fn escaped(module: &str) -> String {
    let letters = module.chars().map(|letter| match letter {
        'A'..='Z' => format!("!{}", letter.to_ascii_lowercase()),
        other => other.to_string(),
    });
    letters.collect()
}

/// Content security policy: a browser must not load anything from a package.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// Routes the page and the files.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    for path in [FOLDER, FOLDER.trim_end_matches('/')] {
        let state = Arc::clone(state);
        let page = web::get().to(move |request: HttpRequest| {
            let response = respond(&state, &request);
            async { response }
        });
        config.service(single_method_resource(path, Method::Get, page));
    }
    config.service(single_method_resource(
        &format!("{FOLDER}{{path:.*}}"),
        Method::Get,
        web::get().to(file),
    ));
}

async fn file(request: HttpRequest, path: web::Path<String>) -> HttpResponse {
    let Some(file) = PackageFile::find(&path) else {
        // After a 404, Go tries its next proxy.
        let message = format!(
            "no such package; see {FOLDER} for the packages of this server's version, {VERSION}"
        );
        return ApiError::from(Problem::new(ErrorCode::NotFound, message)).to_http();
    };
    // Builds of an unreleased version can differ, so caches must revalidate.
    let tag = EntityTag::new_strong(file.sha256.clone());
    if resource::client_has(&request, &tag) {
        return HttpResponse::NotModified()
            .insert_header(ETag(tag))
            .insert_header((CACHE_CONTROL, "no-cache"))
            .finish();
    }
    page_response(POLICY)
        .insert_header(ETag(tag))
        .content_type(file.content_type)
        .body(file.content.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_has_its_capital_letters_escaped_in_paths() {
        assert_eq!(
            escaped("github.com/Azure/conclaveSDK/sdk/go"),
            "github.com/!azure/conclave!s!d!k/sdk/go"
        );
        assert_eq!(
            escaped("example.org/conclave/sdk/go"),
            "example.org/conclave/sdk/go"
        );
    }

    #[test]
    fn each_sdk_has_its_archive() {
        let all = sdks("http://localhost");
        assert!(
            all.iter()
                .all(|sdk| PackageFile::find(&sdk.archive).is_some())
        );
        let languages: Vec<_> = all.iter().map(|sdk| sdk.language).collect();
        assert_eq!(languages, ["TypeScript", "Python", "Go", "React"]);
    }
}
