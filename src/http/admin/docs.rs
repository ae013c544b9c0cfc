//! `/docs`: the OpenAPI description in Swagger UI, whose files are part of the program.
//!
//! It works without the internet, and its policy lets the browser load nothing from anywhere else. It needs no admin token:
//! a browser sends none when it opens a page, and there is nothing here that `/openapi.json` does not show to everybody on
//! the API listener. It only shows; calls to the API would come from another origin, which the API refuses.

use std::borrow::Cow;
use std::sync::Arc;

use actix_web::http::header::ContentType;
use actix_web::{HttpResponse, web};
use utoipa_swagger_ui::Config;

use crate::http::error::ApiError;
use crate::http::page::page_response;
use crate::http::resource::{describe, no_such_route, single_method_resource};
use crate::http::spec::Method;

const PAGE: &str = include_str!("docs.html");
/// What the browser may load, and from where. Swagger UI sets styles on its elements and draws icons from `data:` urls.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Routes the page, its files and what it shows.
pub fn configure(config: &mut web::ServiceConfig) {
    describe(config);
    let page = web::get().to(async || page_response(POLICY).content_type(ContentType::html()).body(PAGE));
    config.service(single_method_resource("/docs", Method::Get, page));
    let viewer = viewer();
    let file = web::get().to(move |file: web::Path<String>| asset(file, Arc::clone(&viewer)));
    config.service(single_method_resource("/docs/{file}", Method::Get, file));
}

/// How the viewer shows the description: without calls, and without asking others whether it is valid.
fn viewer() -> Arc<Config<'static>> {
    let nothing: [&str; 0] = [];
    let config = Config::from("/openapi.json").deep_linking(true).doc_expansion("list").use_base_layout();
    Arc::new(config.supported_submit_methods(nothing).validator_url("none"))
}

async fn asset(file: web::Path<String>, viewer: Arc<Config<'static>>) -> HttpResponse {
    // What cannot be served is not there.
    let Ok(Some(found)) = utoipa_swagger_ui::serve(&file, viewer) else {
        return ApiError::from(no_such_route()).to_http();
    };
    let bytes = match found.bytes {
        Cow::Borrowed(bytes) => web::Bytes::from_static(bytes),
        Cow::Owned(bytes) => bytes.into(),
    };
    page_response(POLICY).content_type(found.content_type).body(bytes)
}
