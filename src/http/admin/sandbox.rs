//! The sandbox simulates participants, encoders and egresses, so that an integration can be tested without a camera or a browser. Each
//! call returns after its report is committed, so a test can check the effects without polling.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use conclave_media::embedded::{EmbeddedPlane, NewTrack, Sandbox, SandboxError};
use conclave_model::egress::EgressStatus;
use conclave_model::event::Departure;
use conclave_model::ingress::IngressState;
use conclave_model::non_null::non_null;
use conclave_model::participant::{TrackKind, TrackSource};
use conclave_model::{ParticipantSid, TrackSid};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use crate::http::api::error::ApiError;
use crate::http::api::input::{Base64Bytes, body};
use crate::http::api::spec::Method;
use crate::http::frame::payload::BodyReader;
use crate::http::listener::trace::SecretPath;
use crate::http::resource::{no_such_route, single_method_resource};

type Plane = web::Data<Sandbox>;

/// Routes the sandbox.
pub fn configure(config: &mut web::ServiceConfig, plane: &EmbeddedPlane, bodies: &BodyReader) {
    let post =
        |path: &str, route: actix_web::Route| single_method_resource(path, Method::Post, route);
    let sandbox = web::scope("/sandbox")
        .app_data(web::Data::new(plane.sandbox()))
        // As in the API: a small body, JSON, within a deadline.
        .app_data(bodies.clone())
        .service(post("/join", web::post().to(join)))
        .service(single_method_resource(
            "/participants/{sid}",
            Method::Get,
            web::get().to(view),
        ))
        .service(post("/participants/{sid}/tracks", web::post().to(publish)))
        .service(single_method_resource(
            "/participants/{sid}/tracks/{track_sid}",
            Method::Delete,
            web::delete().to(unpublish),
        ))
        .service(post("/participants/{sid}/mute", web::post().to(mute)))
        .service(post("/participants/{sid}/data", web::post().to(data)))
        .service(post("/participants/{sid}/bitrate", web::post().to(bitrate)))
        .service(post("/participants/{sid}/leave", web::post().to(leave)))
        .service(
            // The path contains the stream key, which logs must not show.
            post("/ingress/{stream_key}/connect", web::post().to(connect)).app_data(SecretPath),
        )
        .service(
            post(
                "/ingress/{stream_key}/disconnect",
                web::post().to(disconnect),
            )
            .app_data(SecretPath),
        )
        .service(post("/egress/{egress_id}", web::post().to(egress)))
        .service(post("/outage", web::post().to(outage)))
        .service(post("/drop_reports", web::post().to(drop_reports)))
        .default_service(web::to(async || ApiError::from(no_such_route()).to_http()));
    config.service(sandbox);
}

/// Sandbox request: path parameters and body.
struct SandboxRequest {
    http: HttpRequest,
    body: web::Bytes,
}

impl actix_web::FromRequest for SandboxRequest {
    type Error = ApiError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self, ApiError>>>>;

    fn from_request(request: &HttpRequest, payload: &mut actix_web::dev::Payload) -> Self::Future {
        let (request, payload) = (
            request.clone(),
            web::Payload::from_request(request, payload),
        );
        Box::pin(async move {
            let payload = payload.await.map_err(ApiError::internal)?;
            let bodies = request.app_data::<BodyReader>().cloned();
            let bodies =
                bodies.ok_or_else(|| ApiError::internal("the sandbox has no reader of bodies"))?;
            let body = bodies.collect(&request, payload).await?;
            Ok(Self {
                http: request,
                body,
            })
        })
    }
}

impl SandboxRequest {
    fn sid(&self) -> Result<ParticipantSid, ApiError> {
        self.http
            .match_info()
            .query("sid")
            .parse()
            // A malformed id names nobody, so it is a 404.
            .map_err(|_| SandboxError::NoSuchParticipant.into())
    }

    fn stream_key(&self) -> &str {
        self.http.match_info().query("stream_key")
    }

    fn track(&self) -> Result<TrackSid, ApiError> {
        self.http
            .match_info()
            .query("track_sid")
            .parse()
            .map_err(|_| SandboxError::NoSuchTrack.into())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Join {
    token: String,
}

async fn join(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    let join: Join = body::read(&request.body)?;
    let joined = plane.join(&join.token).await?;
    let mut answer = json!({"sid": joined.sid, "identity": joined.identity, "room": joined.room});
    if let Some(role) = joined.role {
        answer["role"] = json!(role);
    }
    Ok(HttpResponse::Created().json(answer))
}

async fn view(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    let view = plane.view(&request.sid()?).await?;
    Ok(HttpResponse::Ok().json(json!({
        "participant": view.participant, "token": view.token.reveal(), "inbox": view.inbox,
        "subscriptions": view.subscriptions
    })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publish {
    kind: TrackKind,
    source: TrackSource,
    name: Option<String>,
    #[serde(default)]
    muted: bool,
}

async fn publish(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    let Publish {
        kind,
        source,
        name,
        muted,
    } = body::read(&request.body)?;
    let track = plane
        .publish(
            &request.sid()?,
            NewTrack {
                kind,
                source,
                name,
                muted,
            },
        )
        .await;
    Ok(HttpResponse::Created().json(track?))
}

async fn unpublish(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    done(plane.unpublish(&request.sid()?, &request.track()?).await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mute {
    track_sid: TrackSid,
    muted: bool,
}

async fn mute(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    let mute: Mute = body::read(&request.body)?;
    ok(plane
        .mute(&request.sid()?, &mute.track_sid, mute.muted)
        .await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    data: Base64Bytes,
    #[serde(default, deserialize_with = "non_null")]
    topic: Option<String>,
}

async fn data(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    let Data { data, topic } = body::read(&request.body)?;
    let result = plane
        .send_data(&request.sid()?, data.into(), topic.as_deref())
        .await;
    ok(result.map(|()| json!({"sent": true})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bitrate {
    kbps: u32,
}

async fn bitrate(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    let Bitrate { kbps } = body::read(&request.body)?;
    ok(plane
        .set_bitrate(&request.sid()?, kbps)
        .await
        .map(|()| json!({"kbps": kbps})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Leave {
    clean: bool,
}

async fn leave(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    let Leave { clean } = body::read(&request.body)?;
    let departure = if clean {
        // Decides between `left` and `connection_aborted`.
        Departure::Left
    } else {
        Departure::Lost
    };
    done(plane.leave(&request.sid()?, departure).await)
}

async fn connect(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    ok(plane
        .connect_encoder(request.stream_key())
        .await
        .map(|state| endpoint(&state)))
}

async fn disconnect(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    ok(plane
        .disconnect_encoder(request.stream_key())
        .await
        .map(|state| endpoint(&state)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drive {
    #[serde(deserialize_with = "driven_status")]
    status: EgressStatus,
    #[serde(default, deserialize_with = "non_null")]
    error: Option<String>,
}

/// Parses a status that a simulated egress can be set to. The other statuses are set by the control plane.
fn driven_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EgressStatus, D::Error> {
    let status: Option<EgressStatus> = String::deserialize(deserializer)?.parse().ok();
    let driven = status.filter(|status| *status == EgressStatus::Active || status.is_final());
    driven.ok_or_else(|| {
        D::Error::custom("must be one of active, complete, failed, aborted, limit_reached")
    })
}

async fn egress(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    let Drive { status, error } = body::read(&request.body)?;
    let id = request
        .http
        .match_info()
        .query("egress_id")
        .parse()
        .map_err(|_| SandboxError::NoSuchEgress)?;
    let driven = plane.set_egress_status(&id, status, error).await?;
    let mut answer = json!({"egress_id": driven.egress_id, "status": driven.status});
    if let Some(error) = driven.error {
        answer["error"] = json!(error);
    }
    Ok(HttpResponse::Ok().json(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outage {
    seconds: u32,
}

async fn outage(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    let Outage { seconds } = body::read(&request.body)?;
    // Calls to the media plane fail meanwhile, as in an outage.
    plane.simulate_outage(Duration::from_secs(seconds.into()));
    Ok(HttpResponse::Ok().json(json!({"seconds": seconds})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DropReports {
    count: u32,
}

async fn drop_reports(plane: Plane, request: SandboxRequest) -> Result<HttpResponse, ApiError> {
    let DropReports { count } = body::read(&request.body)?;
    // For tests of reconciliation, which has to find what the reports contained.
    plane.drop_reports(count);
    Ok(HttpResponse::Ok().json(json!({"count": count})))
}

fn endpoint(state: &IngressState) -> serde_json::Value {
    json!({"ingress_id": state.ingress_id, "status": state.status})
}

fn ok<T: Serialize>(result: Result<T, SandboxError>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(result?))
}

fn done(result: Result<(), SandboxError>) -> Result<HttpResponse, ApiError> {
    result?;
    Ok(HttpResponse::NoContent().finish())
}
