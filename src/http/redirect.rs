//! The listener without encryption beside an API listener with TLS: it sends every request there.

use std::sync::Arc;

use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::{ErrorCode, Problem};

use super::error::ApiError;
use super::hosts::requested_host;
use super::state::AppState;

/// The port of `https` urls that name none.
const HTTPS_PORT: u16 = 443;

/// Answers every request with 308 and its url on the API listener.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let port = state.api_port;
    config.default_service(web::to(move |request: HttpRequest| {
        let response = redirect(&request, port);
        async move { response }
    }));
}

fn redirect(request: &HttpRequest, port: u16) -> HttpResponse {
    let Some(host) = requested_host(request.headers()) else {
        let message = "the server speaks https; the Host header must name it";
        return ApiError::from(Problem::new(ErrorCode::InvalidRequest, message)).to_http();
    };
    let port = if port == HTTPS_PORT { String::new() } else { format!(":{port}") };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    HttpResponse::PermanentRedirect().insert_header((LOCATION, format!("https://{host}{port}{path}"))).finish()
}
