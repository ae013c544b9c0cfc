//! `/sdk/`: the packages of the SDKs for package managers, and a page with the commands that install them.
//!
//! They need no admin token: package managers send none, and the SDKs are public.

use std::sync::Arc;

use actix_web::http::header::{CACHE_CONTROL, ETag, EntityTag};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::{ErrorCode, Problem};

use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::console;
use crate::http::etag;
use crate::http::page::page_response;
use crate::http::resource::single_method_resource;
use crate::http::sdks::{FOLDER, PackageFile, VERSION};
use crate::http::state::AppState;

/// Nothing of a package is for a browser to load.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// Routes the page and the files.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    for path in [FOLDER, FOLDER.trim_end_matches('/')] {
        let state = Arc::clone(state);
        let page = web::get().to(move |request: HttpRequest| {
            let response = console::sdks::respond(&state, &request);
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
        // Go asks its next proxy then.
        let message = format!(
            "there is no such package; {FOLDER} lists the packages of this server's version, {VERSION}"
        );
        return ApiError::from(Problem::new(ErrorCode::NotFound, message)).to_http();
    };
    // Builds of a version that is not released yet can differ, so nothing is kept without asking.
    let tag = EntityTag::new_strong(file.sha256.clone());
    if etag::is_known(&request, &tag) {
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
