//! `/docs`: the OpenAPI description in Swagger UI, whose files are part of the program, and the pages of documentation with
//! what they link to.
//!
//! It works without the internet, and its policy lets the browser load nothing from anywhere else. It needs no admin token:
//! a browser sends none when it opens a page, and there is nothing here that `/openapi.json` does not show to everybody on
//! the API listener. It only shows; calls to the API would come from another origin, which the API refuses.

use std::convert::Infallible;

use actix_web::body::{MessageBody, SizedStream};
use actix_web::http::header::{CONTENT_ENCODING, ContentType};
use actix_web::web::Bytes;
use actix_web::{HttpResponse, web};
use futures_util::stream;

use super::{pages, viewer};
use crate::http::error::ApiError;
use crate::http::page::page_response;
use crate::http::resource::{describe, no_such_route, single_method_resource};
use crate::http::spec::Method;

const PAGE: &str = include_str!("docs.html");
/// What the page starts the viewer with.
const START: &str = include_str!("docs.js");
/// What the browser may load, and from where. Swagger UI sets styles on its elements and draws icons from `data:` urls.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Routes the page, its files and what it shows.
pub fn configure(config: &mut web::ServiceConfig) {
    describe(config);
    let page = web::get().to(async || page_response(POLICY).content_type(ContentType::html()).body(PAGE));
    config.service(single_method_resource("/docs", Method::Get, page));
    let index = web::get().to(async || shown("/llms.txt", pages::index()));
    config.service(single_method_resource("/llms.txt", Method::Get, index));
    for file in pages::FILES {
        let route = web::get().to(move || async move { shown(file.path, file.content) });
        config.service(single_method_resource(file.path, Method::Get, route));
    }
    config.service(single_method_resource("/docs/{file}", Method::Get, web::get().to(viewer_file)));
    // What is not in these folders is not found, rather than guarded by the admin token.
    for folder in ["/config", "/deploy", "/docs"] {
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
    page_response(POLICY).content_type(kind).body(content)
}

async fn viewer_file(name: web::Path<String>) -> HttpResponse {
    let kind = match name.rsplit('.').next() {
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        Some("png") => "image/png",
        _ => return ApiError::from(no_such_route()).to_http(),
    };
    if *name == "swagger-initializer.js" {
        return page_response(POLICY).content_type(kind).body(START);
    }
    let Some(found) = viewer::file(&name) else { return ApiError::from(no_such_route()).to_http() };
    let mut response = page_response(POLICY);
    if found.is_gzip {
        response.insert_header((CONTENT_ENCODING, "gzip"));
    }
    let length: usize = found.parts.iter().map(|part| part.len()).sum();
    let parts = found.parts.map(|part| Ok::<_, Infallible>(Bytes::from_static(part)));
    response.content_type(kind).body(SizedStream::new(length as u64, stream::iter(parts)))
}
