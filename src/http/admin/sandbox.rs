//! The sandbox: stands in for people, so that an integration can be tested with no camera and no browser.
//!
//! Each call is answered once what it reports is committed.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use conclave_media::embedded::{EmbeddedPlane, NewTrack, SandboxError};
use conclave_model::egress::EgressStatus;
use conclave_model::ingress::IngressState;
use conclave_model::non_null::non_null;
use conclave_model::participant::{TrackKind, TrackSource};
use conclave_model::{ErrorCode, ParticipantSid, TrackSid};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::http::app::{no_such_route, place};
use crate::http::operation::Method;
use crate::http::problem::{self, Problem};
use crate::http::{body, gate};

type Plane = web::Data<EmbeddedPlane>;

/// Routes it.
pub fn configure(config: &mut web::ServiceConfig, plane: &EmbeddedPlane) {
    let post = |path: &str, route: actix_web::Route| place(path, Method::Post, route);
    let sandbox = web::scope("/sandbox")
        .app_data(web::Data::new(plane.clone()))
        .service(post("/join", web::post().to(async |plane, call| answer(join(plane, call).await))))
        .service(place(
            "/participants/{sid}",
            Method::Get,
            web::get().to(async |plane, call| answer(view(plane, call).await)),
        ))
        .service(post(
            "/participants/{sid}/tracks",
            web::post().to(async |plane, call| answer(publish(plane, call).await)),
        ))
        .service(place(
            "/participants/{sid}/tracks/{track_sid}",
            Method::Delete,
            web::delete().to(async |plane, call| answer(unpublish(plane, call).await)),
        ))
        .service(post("/participants/{sid}/mute", web::post().to(async |plane, call| answer(mute(plane, call).await))))
        .service(post("/participants/{sid}/data", web::post().to(async |plane, call| answer(data(plane, call).await))))
        .service(post(
            "/participants/{sid}/bitrate",
            web::post().to(async |plane, call| answer(bitrate(plane, call).await)),
        ))
        .service(post(
            "/participants/{sid}/leave",
            web::post().to(async |plane, call| answer(leave(plane, call).await)),
        ))
        .service(post(
            "/ingress/{stream_key}/connect",
            web::post().to(async |plane, call| answer(connect(plane, call).await)),
        ))
        .service(post(
            "/ingress/{stream_key}/disconnect",
            web::post().to(async |plane, call| answer(disconnect(plane, call).await)),
        ))
        .service(post("/egress/{egress_id}", web::post().to(async |plane, call| answer(egress(plane, call).await))))
        .service(post("/outage", web::post().to(async |plane, call| answer(outage(&plane, &call)))))
        .service(post("/drop_reports", web::post().to(async |plane, call| answer(drop_reports(&plane, &call)))))
        .default_service(web::to(async || problem::response(&no_such_route())));
    config.service(sandbox);
}

/// A sandbox request: path parameters and a body.
struct SandboxCall {
    request: HttpRequest,
    body: web::Bytes,
}

impl actix_web::FromRequest for SandboxCall {
    type Error = actix_web::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self, actix_web::Error>>>>;

    fn from_request(request: &HttpRequest, payload: &mut actix_web::dev::Payload) -> Self::Future {
        let (request, payload) = (request.clone(), web::Payload::from_request(request, payload));
        Box::pin(async move {
            let body = gate::body::collect(&request, payload.await?).await;
            let refuse = |problem| actix_web::error::InternalError::from_response("", problem::response(&problem));
            let body = body.map_err(refuse)?;
            Ok(Self { request, body })
        })
    }
}

impl SandboxCall {
    fn sid(&self) -> Result<ParticipantSid, Problem> {
        self.request.match_info().query("sid").parse().map_err(|_| not_found(SandboxError::NoSuchParticipant))
    }

    fn stream_key(&self) -> &str {
        self.request.match_info().query("stream_key")
    }

    fn track(&self) -> Result<TrackSid, Problem> {
        self.request.match_info().query("track_sid").parse().map_err(|_| not_found(SandboxError::NoSuchTrack))
    }
}

fn not_found(error: SandboxError) -> Problem {
    refusal(&error)
}

fn answer(result: Result<HttpResponse, Problem>) -> HttpResponse {
    result.unwrap_or_else(|problem| problem::response(&problem))
}

/// What the sandbox's refusals are in the envelope.
fn refusal(error: &SandboxError) -> Problem {
    let message = error.to_string();
    match error {
        SandboxError::BadToken(_) => Problem::new(ErrorCode::Unauthorized, message),
        SandboxError::NoSuchParticipant => Problem::new(ErrorCode::ParticipantNotFound, message),
        SandboxError::NoSuchTrack => Problem::new(ErrorCode::TrackNotFound, message),
        SandboxError::NoSuchEgress => Problem::new(ErrorCode::NotFound, message),
        SandboxError::NoSuchIngress => Problem::new(ErrorCode::IngressNotFound, message),
        SandboxError::Forbidden(_) => Problem::new(ErrorCode::PermissionDenied, message),
        SandboxError::RoomFull | SandboxError::RoleFull => Problem::new(ErrorCode::RoleCapacityReached, message),
        SandboxError::RoomEnded => Problem::room_ended(),
        SandboxError::Unavailable => Problem::new(ErrorCode::MediaUnavailable, message),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Join {
    token: String,
}

async fn join(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    let join: Join = body::read(&call.body)?;
    let joined = plane.join(&join.token).await.map_err(|error| refusal(&error))?;
    let mut answer = json!({"sid": joined.sid, "identity": joined.identity, "room": joined.room});
    if let Some(role) = joined.role {
        answer["role"] = json!(role);
    }
    Ok(HttpResponse::Created().json(answer))
}

async fn view(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    let view = plane.view(&call.sid()?).await.map_err(|error| refusal(&error))?;
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

async fn publish(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    let Publish { kind, source, name, muted } = body::read(&call.body)?;
    let track = plane.publish(&call.sid()?, NewTrack { kind, source, name, muted }).await;
    track.map(|track| HttpResponse::Created().json(track)).map_err(|error| refusal(&error))
}

async fn unpublish(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    done(plane.unpublish(&call.sid()?, &call.track()?).await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mute {
    track_sid: TrackSid,
    muted: bool,
}

async fn mute(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    let mute: Mute = body::read(&call.body)?;
    ok(plane.mute(&call.sid()?, &mute.track_sid, mute.muted).await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    data: String,
    #[serde(default, deserialize_with = "non_null")]
    topic: Option<String>,
}

async fn data(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    let sent: Data = body::read(&call.body)?;
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &sent.data);
    decoded.map_err(|_| Problem::invalid("data", "must be standard base64"))?;
    let result = plane.send_data(&call.sid()?, &sent.data, sent.topic.as_deref()).await;
    ok(result.map(|()| json!({"sent": true})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bitrate {
    kbps: u32,
}

async fn bitrate(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    let Bitrate { kbps } = body::read(&call.body)?;
    ok(plane.set_bitrate(&call.sid()?, kbps).await.map(|()| json!({"kbps": kbps})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Leave {
    clean: bool,
}

async fn leave(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    let Leave { clean } = body::read(&call.body)?;
    done(plane.leave(&call.sid()?, clean).await)
}

async fn connect(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    ok(plane.connect_encoder(call.stream_key()).await.map(|state| endpoint(&state)))
}

async fn disconnect(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    ok(plane.disconnect_encoder(call.stream_key()).await.map(|state| endpoint(&state)))
}

/// What a job can be driven to.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Driven {
    Active,
    Complete,
    Failed,
    Aborted,
    LimitReached,
}

impl From<Driven> for EgressStatus {
    fn from(driven: Driven) -> Self {
        match driven {
            Driven::Active => Self::Active,
            Driven::Complete => Self::Complete,
            Driven::Failed => Self::Failed,
            Driven::Aborted => Self::Aborted,
            Driven::LimitReached => Self::LimitReached,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drive {
    status: Driven,
    #[serde(default, deserialize_with = "non_null")]
    error: Option<String>,
}

async fn egress(plane: Plane, call: SandboxCall) -> Result<HttpResponse, Problem> {
    let Drive { status, error } = body::read(&call.body)?;
    let id = call.request.match_info().query("egress_id").parse().map_err(|_| not_found(SandboxError::NoSuchEgress))?;
    let driven = plane.set_egress_status(&id, status.into(), error).await.map_err(|error| refusal(&error))?;
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

fn outage(plane: &Plane, call: &SandboxCall) -> Result<HttpResponse, Problem> {
    let Outage { seconds } = body::read(&call.body)?;
    plane.simulate_outage(Duration::from_secs(seconds.into()));
    Ok(HttpResponse::Ok().json(json!({"seconds": seconds})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DropReports {
    count: u32,
}

fn drop_reports(plane: &Plane, call: &SandboxCall) -> Result<HttpResponse, Problem> {
    let DropReports { count } = body::read(&call.body)?;
    plane.drop_reports(count);
    Ok(HttpResponse::Ok().json(json!({"count": count})))
}

fn endpoint(state: &IngressState) -> serde_json::Value {
    json!({"ingress_id": state.ingress_id, "status": state.status})
}

fn ok<T: Serialize>(result: Result<T, SandboxError>) -> Result<HttpResponse, Problem> {
    result.map(|body| HttpResponse::Ok().json(body)).map_err(|error| refusal(&error))
}

fn done(result: Result<(), SandboxError>) -> Result<HttpResponse, Problem> {
    result.map(|()| HttpResponse::NoContent().finish()).map_err(|error| refusal(&error))
}
