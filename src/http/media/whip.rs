//! `/whip`: encoders that publish by WHIP (RFC 9725), outside the API's frame.
//!
//! The stream key in the path is the credential: its hash is looked up before anything else in a request is read. The response names
//! the session by an id of its own, so no response contains the key. Pages of any origin may publish: they must know the key, and no
//! cookie is used.

use std::sync::Arc;

use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MATCH, LINK, LOCATION,
};
use actix_web::web::{self, Bytes, Payload};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use conclave_media::embedded::{
    EmbeddedPlane, TurnCredentials, WhipAnswer, WhipPatch, WhipPatchError, WhipRestart,
    WhipSessionName,
};
use conclave_model::ingress::{InputType, StreamKeyHash};
use conclave_model::{ErrorCode, Problem};

use super::signalling::any_origin;
use crate::http::api::error::ApiError;
use crate::http::api::input::parameters::segment;
use crate::http::frame::payload::LIMIT;
use crate::http::listener::trace::SecretPath;
use crate::http::resource::method_not_allowed;
use crate::http::state::AppState;

/// Label in the metrics.
const OPERATION: &str = "whip";
/// Media type for offers and answers.
const SDP: &str = "application/sdp";
/// Media type for ICE parameters (RFC 8840).
const FRAGMENT: &str = "application/trickle-ice-sdpfrag";
/// Paths for an endpoint and a session.
const ENDPOINT_PATH: &str = "/whip/{stream_key}";
const SESSION_PATH: &str = "/whip/session/{session}";

/// Handler for encoders' requests.
#[derive(Clone)]
struct Whip {
    state: Arc<AppState>,
    plane: EmbeddedPlane,
}

/// Routes encoders' endpoints and sessions.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>, plane: &EmbeddedPlane) {
    let whip = Whip {
        state: Arc::clone(state),
        plane: plane.clone(),
    };
    for (path, methods) in [
        (ENDPOINT_PATH, "POST, PATCH, DELETE, OPTIONS"),
        (SESSION_PATH, "PATCH, DELETE, OPTIONS"),
    ] {
        let whip = whip.clone();
        let handler = web::to(move |request: HttpRequest, payload: Payload| {
            let whip = whip.clone();
            async move { whip.respond(methods, &request, payload).await }
        });
        config.service(
            web::resource(path)
                // The path contains the stream key or the session's id, which logs must not show.
                .app_data(SecretPath)
                .default_service(handler),
        );
    }
}

impl Whip {
    async fn respond(
        &self,
        methods: &'static str,
        request: &HttpRequest,
        payload: Payload,
    ) -> HttpResponse {
        let timed = self.state.metrics.time(OPERATION);
        let is_endpoint = request.match_info().get("stream_key").is_some();
        let handled = match *request.method() {
            Method::POST if is_endpoint => self.connect(request, payload).await,
            Method::PATCH => self.patch(request, payload).await,
            Method::DELETE => self.delete(request).await,
            Method::OPTIONS => Ok(self
                .state
                .checks
                .fixed
                .respond(request, || options(methods))),
            _ => Ok(self
                .state
                .checks
                .fixed
                .respond(request, || method_not_allowed(methods))),
        };
        // Also on refusals: without the header, a page cannot read the status.
        let response = any_origin(handled.unwrap_or_else(|error| refused(request, &error)));
        timed.answered(response.status());
        response
    }

    /// Connects an encoder.
    async fn connect(
        &self,
        request: &HttpRequest,
        payload: Payload,
    ) -> Result<HttpResponse, ApiError> {
        self.state.checks.limits.check_signalling(request)?;
        let key = StreamKeyHash::from_key(&segment(request, "stream_key"));
        let address = self.state.checks.limits.client_address(request);
        // Before the body is read, so that a client without a valid key cannot occupy memory. Failed keys count by address.
        self.plane
            .check_stream_key(&key, InputType::Whip, address)
            .await?;
        let offer = self.read(request, payload, SDP).await?;
        Ok(connected(&self.plane.connect_whip(key, offer).await?))
    }

    /// Adds an encoder's ICE candidates, or restarts ICE.
    async fn patch(
        &self,
        request: &HttpRequest,
        payload: Payload,
    ) -> Result<HttpResponse, ApiError> {
        self.state.checks.limits.check_signalling(request)?;
        let name = SessionName::new(request);
        // Before the body is read, as in `connect`.
        if !self.plane.has_whip_session(name.borrowed()) {
            return Err(WhipPatchError::NoSession.into());
        }
        // The entity tag of the ICE session (RFC 9725, section 4.3.1).
        let condition = request
            .headers()
            .get(IF_MATCH)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let fragment = self.read(request, payload, FRAGMENT).await?;
        let restarted = self
            .plane
            .patch_whip(
                name.borrowed(),
                WhipPatch {
                    condition,
                    fragment,
                },
            )
            .await?;
        Ok(patched(restarted))
    }

    /// Disconnects an encoder.
    async fn delete(&self, request: &HttpRequest) -> Result<HttpResponse, ApiError> {
        self.state.checks.limits.check_signalling(request)?;
        let was_connected = self
            .plane
            .delete_whip(SessionName::new(request).borrowed())
            .await;
        if was_connected {
            // 200 rather than 204 (RFC 9725).
            Ok(deleted())
        } else {
            Err(WhipPatchError::NoSession.into())
        }
    }

    /// Reads a body with the given media type.
    async fn read(
        &self,
        request: &HttpRequest,
        payload: Payload,
        media_type: &str,
    ) -> Result<String, ApiError> {
        let sent = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if !sent
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case(media_type)
        {
            let message = format!("the body must be sent as {media_type}");
            return Err(Problem::new(ErrorCode::UnsupportedMediaType, message).into());
        }
        let body: Bytes = self
            .state
            .checks
            .bodies
            .within(LIMIT, request, payload)
            .await
            .map_err(Problem::from)?;
        let text = String::from_utf8(body.into());
        text.map_err(|_| Problem::new(ErrorCode::InvalidRequest, "the body must be UTF-8").into())
    }
}

/// Session as named by a request.
enum SessionName {
    Id(String),
    Key(StreamKeyHash),
}

impl SessionName {
    fn new(request: &HttpRequest) -> Self {
        match request.match_info().get("session") {
            Some(_) => Self::Id(segment(request, "session")),
            // By hash, so that the key itself is in no structure that could be logged.
            None => Self::Key(StreamKeyHash::from_key(&segment(request, "stream_key"))),
        }
    }

    fn borrowed(&self) -> WhipSessionName<'_> {
        match self {
            Self::Id(id) => WhipSessionName::Id(id),
            Self::Key(key) => WhipSessionName::Key(key),
        }
    }
}

/// Responds with a problem. A server error is logged, without the path, which may contain the key.
fn refused(request: &HttpRequest, error: &ApiError) -> HttpResponse {
    if error.status() >= 500 {
        log::warn!(operation = OPERATION, method = request.method().as_str(); "{error}");
    }
    error.to_http()
}

/// Response headers that pages from other origins may read.
const EXPOSED: &str = "Location, ETag, Link, Retry-After, X-Request-Id";
/// Request headers that they may send.
const ALLOWED: &str = "Authorization, Content-Type, If-Match";
/// Header with the media type that an endpoint accepts (RFC 9725, section 4.2).
const ACCEPT_POST: &str = "accept-post";
/// Header with the media type that a session accepts (RFC 5789, section 3.1).
const ACCEPT_PATCH: &str = "accept-patch";

/// Responds to an encoder that was admitted.
fn connected(answer: &WhipAnswer) -> HttpResponse {
    let mut response = builder(HttpResponse::Created());
    response
        .content_type(SDP)
        .insert_header((
            LOCATION,
            // Relative, as proxies may change the host.
            format!("/whip/session/{}", answer.session.reveal()),
        ))
        // The client needs it to restart ICE.
        .insert_header((ETAG, answer.etag.as_str()))
        .insert_header((ACCEPT_PATCH, FRAGMENT))
        // The links contain TURN credentials.
        .insert_header((CACHE_CONTROL, "no-store"));
    for link in answer.turn.iter().flat_map(ice_server_links) {
        response.append_header((LINK, link));
    }
    response.body(answer.sdp.clone())
}

/// Responds to a PATCH request, with the server's new credentials if ICE restarts.
fn patched(restarted: Option<WhipRestart>) -> HttpResponse {
    match restarted {
        // 200 with the new credentials for a restart; 204 for candidates alone (RFC 9725, section 4.3).
        Some(WhipRestart { etag, fragment }) => builder(HttpResponse::Ok())
            .content_type(FRAGMENT)
            .insert_header((ETAG, etag))
            .body(fragment),
        None => builder(HttpResponse::NoContent()).finish(),
    }
}

/// Responds to a session's end.
fn deleted() -> HttpResponse {
    builder(HttpResponse::Ok()).finish()
}

/// Responds to OPTIONS with methods and media types, for encoders and for browsers' preflights.
fn options(methods: &'static str) -> HttpResponse {
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
    // On every response: without it, pages cannot read `Location` and `Link`.
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
