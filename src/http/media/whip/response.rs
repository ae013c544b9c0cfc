//! Responses to encoders.

use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, ETAG, LINK, LOCATION,
};
use actix_web::{HttpResponse, HttpResponseBuilder};
use conclave_media::embedded::{TurnCredentials, WhipAnswer, WhipRestart};

use super::{FRAGMENT, SDP};

/// What pages of other origins may read of a response.
const EXPOSED: &str = "Location, ETag, Link, Retry-After, X-Request-Id";
/// What they may send.
const ALLOWED: &str = "Authorization, Content-Type, If-Match";
/// The media type that an endpoint takes (RFC 9725, section 4.2).
const ACCEPT_POST: &str = "accept-post";
/// The media type that a session takes.
const ACCEPT_PATCH: &str = "accept-patch";

/// Answers an encoder that was admitted.
pub fn connected(answer: &WhipAnswer) -> HttpResponse {
    let mut response = builder(HttpResponse::Created());
    response
        .content_type(SDP)
        .insert_header((
            LOCATION,
            format!("/whip/session/{}", answer.session.reveal()),
        ))
        .insert_header((ETAG, answer.etag.as_str()))
        .insert_header((ACCEPT_PATCH, FRAGMENT))
        .insert_header((CACHE_CONTROL, "no-store"));
    for link in answer.turn.iter().flat_map(ice_server_links) {
        response.append_header((LINK, link));
    }
    response.body(answer.sdp.clone())
}

/// Answers a PATCH request: with the server's new credentials if ICE restarts.
pub fn patched(restarted: Option<WhipRestart>) -> HttpResponse {
    match restarted {
        Some(WhipRestart { etag, fragment }) => builder(HttpResponse::Ok())
            .content_type(FRAGMENT)
            .insert_header((ETAG, etag))
            .body(fragment),
        None => builder(HttpResponse::NoContent()).finish(),
    }
}

/// Answers the end of a session.
pub fn deleted() -> HttpResponse {
    builder(HttpResponse::Ok()).finish()
}

/// Answers OPTIONS: what is taken here, also for the preflights of browsers.
pub fn options(methods: &'static str) -> HttpResponse {
    builder(HttpResponse::NoContent())
        .insert_header((ALLOW, methods))
        .insert_header((ACCEPT_POST, SDP))
        .insert_header((ACCEPT_PATCH, FRAGMENT))
        .insert_header((ACCESS_CONTROL_ALLOW_METHODS, methods))
        .insert_header((ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED))
        .insert_header((ACCESS_CONTROL_MAX_AGE, "600"))
        .finish()
}

fn builder(mut response: HttpResponseBuilder) -> HttpResponseBuilder {
    response.insert_header((ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED));
    response
}

/// Returns the links to TURN servers with their credentials (RFC 9725, section 4.6).
fn ice_server_links(turn: &TurnCredentials) -> Vec<String> {
    let link = |url: &String| {
        format!(
            "<{url}>; rel=\"ice-server\"; username=\"{}\"; credential=\"{}\"; credential-type=\"password\"",
            turn.username,
            turn.credential.reveal()
        )
    };
    turn.urls.iter().map(link).collect()
}
