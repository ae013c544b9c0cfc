//! `/docs`: the OpenAPI description in Swagger UI, whose files are part of the program, and the pages of documentation.
//!
//! It works without the internet, and its policy lets the browser load nothing from anywhere else. It needs no admin token:
//! a browser sends none when it opens a page, and there is nothing here that `/openapi.json` does not show to everybody on
//! the API listener. It only shows; calls to the API would come from another origin, which the API refuses.

use actix_web::body::MessageBody;
use actix_web::http::header::{CONTENT_ENCODING, ContentType};
use actix_web::{HttpResponse, web};

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
    let index = web::get().to(async || text("text/plain", pages::index()));
    config.service(single_method_resource("/llms.txt", Method::Get, index));
    config.service(single_method_resource("/docs/{file}", Method::Get, web::get().to(file)));
    config.service(single_method_resource("/sdk/{language}/README.md", Method::Get, web::get().to(sdk)));
}

fn text(kind: &str, text: impl MessageBody + 'static) -> HttpResponse {
    page_response(POLICY).content_type(format!("{kind}; charset=utf-8")).body(text)
}

async fn sdk(language: web::Path<String>) -> HttpResponse {
    let page = pages::sdk(&language).map(|page| text("text/markdown", page));
    page.unwrap_or_else(|| ApiError::from(no_such_route()).to_http())
}

async fn file(name: web::Path<String>) -> HttpResponse {
    if let Some(page) = pages::page(&name) {
        return text("text/markdown", page);
    }
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
    response.content_type(kind).body(found.bytes)
}
