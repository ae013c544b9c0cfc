//! The listener without encryption beside an API listener with TLS: it sends every request there, and answers the challenge
//! http-01 of a CA.

use std::sync::Arc;

use actix_web::http::header::{ContentType, LOCATION};
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::{ErrorCode, Problem};

use super::state::AppState;
use crate::http::api::error::ApiError;
use crate::http::frame::hosts::requested_host;

/// The port of `https` urls that name none.
const HTTPS_PORT: u16 = 443;
/// Where a CA looks for the answer to its challenge (RFC 8555, section 8.3); the token follows.
const CHALLENGE_PATH: &str = "/.well-known/acme-challenge/";

/// Answers challenges, and every other request with 308 and its url on the API listener.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>) {
    let state = Arc::clone(state);
    config.default_service(web::to(move |request: HttpRequest| {
        let response = challenge(&request, &state).unwrap_or_else(|| {
            state
                .checks
                .fixed
                .respond(&request, || redirect(&request, state.api.port))
        });
        async move { response }
    }));
}

/// Answers the challenge under way.
fn challenge(request: &HttpRequest, state: &AppState) -> Option<HttpResponse> {
    let token = request.path().strip_prefix(CHALLENGE_PATH)?;
    let text = state.api.tls.as_ref()?.challenges.text(token)?;
    Some(
        HttpResponse::Ok()
            .insert_header(ContentType::octet_stream())
            .body(text),
    )
}

/// Returns 308 with the url of the request on the API listener, which has this port.
pub(super) fn redirect(request: &HttpRequest, port: u16) -> HttpResponse {
    let Some(host) = requested_host(request.headers()) else {
        let message = "the server speaks https; the Host header must name it";
        return ApiError::from(Problem::new(ErrorCode::InvalidRequest, message)).to_http();
    };
    let port = if port == HTTPS_PORT {
        String::new()
    } else {
        format!(":{port}")
    };
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    HttpResponse::PermanentRedirect()
        .insert_header((LOCATION, format!("https://{host}{port}{path}")))
        .finish()
}
