//! Documentation for this version. [`FILES`] has its pages, and the images and files that they link to.
//!
//! - `/docs/`: HTML pages, rendered by [`site`].
//! - The same pages as Markdown, each file at its path in the repository, and `/llms.txt`, which lists the pages: for programs,
//!   and for readers who have only the server.
//! - `/docs/api`: the OpenAPI description in Swagger UI ([`viewer`]).
//!
//! Everything works without internet access; the content security policy blocks other sources. It needs no admin token: browsers send
//! none when they open a page, and nothing here is secret: it is in the repository, or in `/openapi.json` on the API listener.

pub mod site;
mod viewer;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock, OnceLock};

use actix_web::HttpResponse;
use actix_web::body::{MessageBody, SizedStream};
use actix_web::http::header::{CACHE_CONTROL, CONTENT_ENCODING, LOCATION};
use actix_web::web::{self, Bytes};
use futures_util::stream;

use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::resource::{describe, no_such_route, page_response, single_method_resource};
use crate::http::state::AppState;
use site::{Form, Site};

/// Content security policy for a site page.
// `frame-ancestors` guards against clickjacking; `'none'` for the rest, as pages load only their own files.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
/// Content security policy for a file of the repository: SVG diagrams contain styles.
const FILE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
/// The site's root folder.
const ROOT: &str = "/docs/";

/// The site's files, each rendered at its first request, once for all workers.
static SITE: LazyLock<Rendered> = LazyLock::new(|| {
    let site = Site::new(Form::Served);
    let contents = site.paths().map(|path| (path, OnceLock::new())).collect();
    Rendered { site, contents }
});

struct Rendered {
    site: Site,
    contents: BTreeMap<String, OnceLock<Bytes>>,
}

impl Rendered {
    fn get(&self, path: &str) -> Option<Bytes> {
        let content = self.contents.get(path)?;
        let render = || {
            self.site
                .content(path)
                .map(|content| Bytes::from(content.into_owned()))
                .unwrap_or_default()
        };
        Some(content.get_or_init(render).clone())
    }
}

/// Routes the pages, their files and the viewer.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    describe(config);
    // Relative links in the pages need the trailing slash.
    let moved = web::get().to(async || {
        let mut response = HttpResponse::TemporaryRedirect();
        // Not a permanent redirect, which browsers would remember even if the path changed.
        response
            .insert_header((LOCATION, ROOT))
            .insert_header((CACHE_CONTROL, "no-cache"))
            .finish()
    });
    config.service(single_method_resource("/docs", Method::Get, moved));
    let index = web::get().to(async || shown("/llms.txt", index()));
    config.service(single_method_resource("/llms.txt", Method::Get, index));
    for file in FILES {
        let route = web::get().to(move || async move { shown(file.path, file.content) });
        config.service(single_method_resource(file.path, Method::Get, route));
    }
    viewer::configure(config, state);
    let in_folder = web::get().to(async |path: web::Path<String>| file(&path));
    config.service(single_method_resource(
        "/docs/{path:.*}",
        Method::Get,
        in_folder,
    ));
    // Declared, so that unknown paths in these folders are 404 rather than 401 by the token's scope, which comes last.
    for folder in ["/config", "/deploy"] {
        let missing = web::to(async || ApiError::from(no_such_route()).to_http());
        config.service(web::scope(folder).default_service(missing));
    }
}

/// Responds with a file of the repository; the extension determines the media type.
fn shown(path: &str, content: impl MessageBody + 'static) -> HttpResponse {
    let kind = match path.rsplit('.').next() {
        Some("md") => "text/markdown; charset=utf-8",
        Some("png") => "image/png",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        // Settings files: a browser displays plain text, but would download unknown types.
        _ => "text/plain; charset=utf-8",
    };
    page_response(FILE_POLICY).content_type(kind).body(content)
}

/// Responds with a site or viewer file.
fn file(path: &str) -> HttpResponse {
    let path = if path.is_empty() { "index.html" } else { path };
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        _ => return ApiError::from(no_such_route()).to_http(),
    };
    let mut response = page_response(POLICY);
    response.content_type(kind);
    if let Some(content) = SITE.get(path) {
        return response.body(content);
    }
    let Some(found) = viewer::file(path) else {
        return ApiError::from(no_such_route()).to_http();
    };
    // Stored compressed only: every browser accepts gzip.
    if found.is_gzip {
        response.insert_header((CONTENT_ENCODING, "gzip"));
    }
    // The parts stay in the archive's static memory; joining them would copy them for each request.
    let length: usize = found.parts.iter().map(|part| part.len()).sum();
    let parts = found
        .parts
        .map(|part| Ok::<_, Infallible>(Bytes::from_static(part)));
    response.body(SizedStream::new(length as u64, stream::iter(parts)))
}

macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        // Compiled in, so that the documentation fits the version and needs no files or network.
        &[$(File { path: concat!("/", $path), content: include_bytes!(concat!("../../../../", $path)) }),+]
    };
}

/// File of the repository, compiled into the program.
pub(super) struct File {
    /// URL path, such as `/docs/running.md`. Links between files are relative to it.
    pub path: &'static str,
    pub content: &'static [u8],
}

/// The pages, and the files that they link to.
pub(super) const FILES: &[File] = files![
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "config/conclave.service",
    "config/conclave.toml",
    "config/plans.toml",
    "deploy/cluster/compose.yaml",
    "deploy/cluster/haproxy.cfg",
    "deploy/cluster/kubernetes/kustomization.yaml",
    "deploy/compose.yaml",
    "deploy/grafana/conclave.json",
    "deploy/kubernetes/kustomization.yaml",
    "deploy/litestream.yml",
    "deploy/prometheus/alerts.yaml",
    "deploy/prometheus/prometheus.yml",
    "deploy/proxies/Caddyfile",
    "deploy/proxies/conclave.yml",
    "deploy/proxies/nginx.conf",
    "deploy/proxies/traefik.yml",
    "docs/api.md",
    "docs/billing.md",
    "docs/clients.md",
    "docs/cluster.md",
    "docs/configuration.md",
    "docs/console/overview.png",
    "docs/console/room.png",
    "docs/console/template.png",
    "docs/console/timeline.png",
    "docs/cpu-by-the-number-of-subscribers.svg",
    "docs/deep-pages-by-the-rows-that-they-skip.svg",
    "docs/deployment.md",
    "docs/diagrams/architecture-1.svg",
    "docs/diagrams/architecture-2.svg",
    "docs/diagrams/architecture-3.svg",
    "docs/diagrams/architecture-4.svg",
    "docs/diagrams/architecture-5.svg",
    "docs/diagrams/architecture-6.svg",
    "docs/diagrams/architecture-7.svg",
    "docs/diagrams/cluster-1.svg",
    "docs/diagrams/cluster-2.svg",
    "docs/diagrams/livekit-1.svg",
    "docs/diagrams/postgresql-1.svg",
    "docs/diagrams/readme-1.svg",
    "docs/diagrams/reliability-1.svg",
    "docs/diagrams/reliability-2.svg",
    "docs/embedding.md",
    "docs/embedding/call.png",
    "docs/embedding/lobby.png",
    "docs/from-100ms.md",
    "docs/from-daily.md",
    "docs/from-livekit.md",
    "docs/from-twilio.md",
    "docs/guide.md",
    "docs/guide/call.png",
    "docs/keys.md",
    "docs/limits.md",
    "docs/lists-by-the-number-of-rows.svg",
    "docs/livekit.md",
    "docs/mobile.md",
    "docs/moving.md",
    "docs/operations.md",
    "docs/performance.md",
    "docs/postgresql.md",
    "docs/recordings.md",
    "docs/reliability.md",
    "docs/requests-by-the-number-of-open-rooms.svg",
    "docs/reverse-proxies.md",
    "docs/running.md",
    "docs/sizing.md",
    "docs/tenants.md",
    "docs/webhooks.md",
    "sdk/python/README.md",
    "sdk/typescript/README.md",
    "sdk/go/README.md",
    "sdk/react/README.md",
];

/// The README, whose page table describes each page.
pub(super) const README: &str = include_str!("../../../../README.md");

/// Returns `/llms.txt`: a description of Conclave, and the pages with their topics, in the format of <https://llmstxt.org>.
pub(super) fn index() -> String {
    // The paragraph below the heading describes Conclave.
    let about = README
        .split("\n\n")
        .nth(1)
        .unwrap_or_default()
        .replace('\n', " ");
    let pages: String = described()
        .map(|(title, name, about)| format!("- [{title}](/docs/{name}): {about}\n"))
        .collect();
    let sdks = FILES.iter().filter(|file| file.path.starts_with("/sdk/"));
    let sdks: String = sdks
        .map(|file| listed_sdk(file.path, &String::from_utf8_lossy(file.content)))
        .collect();
    format!(
        "# Conclave\n\n> {about}\n\n## Documentation\n\n{pages}\n## SDKs\n\n{sdks}- [Packages](/sdk/): for npm, pip and Go, with the commands that install them\n\n## API\n\n- [OpenAPI description](/openapi.json): all operations and types, as JSON\n- [Extensions](/ext/openapi.json): the operations below /ext/v1, as JSON\n"
    )
}

/// Returns an SDK's line: its page's heading and first sentence.
fn listed_sdk(path: &str, text: &str) -> String {
    let title = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("# ");
    let about = text
        .split("\n\n")
        .nth(1)
        .unwrap_or_default()
        .replace("[Conclave](../../README.md)", "Conclave");
    let about = about.replace('\n', " ");
    let sentence = about
        .split_once(". ")
        .map_or(&*about, |(sentence, _)| sentence);
    format!("- [{title}]({path}): {sentence}\n")
}

/// Iterates over the rows of the README's page table: title, name, topic.
fn described() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    README.lines().filter_map(|line| {
        let (title, rest) = line.strip_prefix("| [")?.split_once("](docs/")?;
        let (name, about) = rest.split_once(") | ")?;
        Some((title, name, about.strip_suffix(" |")?))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_page_is_in_the_program_and_in_the_table_of_the_readme() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let names = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let written: BTreeSet<_> = names.filter(|name| name.ends_with(".md")).collect();
        let in_docs = FILES
            .iter()
            .filter_map(|file| file.path.strip_prefix("/docs/"));
        let embedded: BTreeSet<_> = in_docs
            .filter(|name| name.ends_with(".md"))
            .map(str::to_owned)
            .collect();
        let listed: BTreeSet<_> = described().map(|(_, name, _)| name.to_owned()).collect();
        assert_eq!(embedded, written, "list each page in FILES");
        assert_eq!(listed, written, "list each page in README.md");
    }

    #[test]
    fn an_sdk_is_listed_by_its_heading_and_first_sentence() {
        let text =
            "# Conclave for A\n\nCalls [Conclave](../../README.md)\nfrom a server. Typed.\n\nMore.";
        assert_eq!(
            listed_sdk("/sdk/a/README.md", text),
            "- [Conclave for A](/sdk/a/README.md): Calls Conclave from a server\n"
        );
    }
}
