//! `/docs/`: the documentation as HTML pages ([`site`](site)), `/docs/api`: the OpenAPI description in Swagger UI, and the same
//! pages as Markdown with the files that they link to.
//!
//! All of it works without the internet, and its policy lets the browser load nothing from anywhere else. It needs no admin token:
//! a browser sends none when it opens a page, and there is nothing here that is not in the repository or that `/openapi.json` does not
//! show to everybody on the API listener.

mod pages;
pub mod site;
mod try_out;
mod viewer;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock, OnceLock};

use actix_web::body::{MessageBody, SizedStream};
use actix_web::http::header::{CACHE_CONTROL, CONTENT_ENCODING, LOCATION};
use actix_web::web::Bytes;
use actix_web::{HttpResponse, web};
use futures_util::stream;

use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::page::page_response;
use crate::http::resource::{describe, no_such_route, single_method_resource};
use crate::http::state::AppState;
use pages;
use site::{Form, Site};
use try_out;
use viewer;

/// What the browser may load for a page of the site.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
/// The same for a file of the repository: pictures of diagrams have styles of their own.
const FILE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
/// The folder of the site.
const ROOT: &str = "/docs/";

/// The files of the site. Each is rendered when it is first asked for, once for all workers.
static FILES: LazyLock<Rendered> = LazyLock::new(|| {
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
    let moved = web::get().to(async || {
        let mut response = HttpResponse::TemporaryRedirect();
        response
            .insert_header((LOCATION, ROOT))
            .insert_header((CACHE_CONTROL, "no-cache"))
            .finish()
    });
    config.service(single_method_resource("/docs", Method::Get, moved));
    let index = web::get().to(async || shown("/llms.txt", pages::index()));
    config.service(single_method_resource("/llms.txt", Method::Get, index));
    for file in pages::FILES {
        let route = web::get().to(move || async move { shown(file.path, file.content) });
        config.service(single_method_resource(file.path, Method::Get, route));
    }
    try_out::configure(config, state);
    let in_folder = web::get().to(async |path: web::Path<String>| file(&path));
    config.service(single_method_resource(
        "/docs/{path:.*}",
        Method::Get,
        in_folder,
    ));
    // What is not in these folders is not found, rather than guarded by the admin token.
    for folder in ["/config", "/deploy"] {
        let missing = web::to(async || ApiError::from(no_such_route()).to_http());
        config.service(web::scope(folder).default_service(missing));
    }
}

/// The response with a file for readers, of the type that its ending tells.
fn shown(path: &str, content: impl MessageBody + 'static) -> HttpResponse {
    let kind = match path.rsplit('.').next() {
        Some("md") => "text/markdown; charset=utf-8",
        Some("png") => "image/png",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        // Settings, which a browser shows instead of saving them.
        _ => "text/plain; charset=utf-8",
    };
    page_response(FILE_POLICY).content_type(kind).body(content)
}

/// The response with a file of the site, or of the viewer.
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
    if let Some(content) = FILES.get(path) {
        return response.body(content);
    }
    let Some(found) = viewer::file(path) else {
        return ApiError::from(no_such_route()).to_http();
    };
    if found.is_gzip {
        response.insert_header((CONTENT_ENCODING, "gzip"));
    }
    let length: usize = found.parts.iter().map(|part| part.len()).sum();
    let parts = found
        .parts
        .map(|part| Ok::<_, Infallible>(Bytes::from_static(part)));
    response.body(SizedStream::new(length as u64, stream::iter(parts)))
}
