//! Broadcasts (contract "Broadcasts").

use conclave_media::EgressOutput;
use conclave_model::destination::{DestinationConfig, DestinationKind};
use conclave_model::egress::{
    CompositeMedia, Egress, EgressDetail, EgressKind, EgressSource, EgressStatus, Layout, UsedDestination,
};
use conclave_model::non_null::non_null;
use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use conclave_model::rtmp::{RtmpUrl, parse_urls};
use conclave_model::{DestinationName, ErrorCode, Problem};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::egress::{EgressHead, EgressPath, EgressQuery, EgressTail, Resource};
use crate::http::context::RequestContext;
use crate::http::egress_address::{check_hosts, rtmp_hosts};
use crate::http::error::ApiError;
use crate::http::input::path::RoomPath;
use crate::http::input::{Checked, Input, NoBody, NoParams, Paged, Validate};
use crate::http::operation::{CheckResult, Operation, operation};
use crate::http::response::{self, Response};
use crate::http::spec::Method;

const BROADCASTS: Resource = Resource { kind: EgressKind::Broadcast, destinations: DestinationKind::Rtmp };

/// A broadcast to start.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartBroadcast {
    /// 1 to 8 `rtmp://` or `rtmps://` urls. Required unless `destination` is given, and not beside it.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<Vec<RtmpUrl>>, nullable = false, min_items = 1, max_items = 8)]
    urls: Option<Vec<String>>,
    /// An rtmp destination of the room's template. Not beside `urls`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    destination: Option<DestinationName>,
    /// The arrangement of the participants; default grid.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    layout: Option<Layout>,
    /// Whether to send audio without video; default false.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    audio_only: Option<bool>,
}

/// A broadcast.
#[derive(Serialize, ToSchema)]
pub struct Broadcast<'a> {
    #[serde(flatten)]
    head: EgressHead<'a>,
    /// The receivers, each stream key replaced by `REDACTED`.
    urls: &'a [String],
    status: EgressStatus,
    #[serde(flatten)]
    tail: EgressTail<'a>,
}

impl<'a> Broadcast<'a> {
    /// `None` for a recording, which no query of this resource gives.
    fn from_egress(egress: &'a Egress) -> Option<Self> {
        let EgressDetail::Broadcast { urls } = &egress.detail else { return None };
        Some(Self { head: egress.into(), urls, status: egress.status, tail: egress.into() })
    }
}

fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-b2c3-7d4e-9f50-6b7c8d9e0f1a", "project_id": "prj_5f2a9c01be34", "room": "standup",
        "namespaced_room": "prj_5f2a9c01be34.standup", "egress_id": "EG_4kW8nYt2vRq6",
        "urls": ["rtmp://live.example.com/app/REDACTED"], "status": "starting",
        "started_at": "2026-01-31T12:00:00.000Z", "created_at": "2026-01-31T12:00:00.010Z"
    })
}

/// The operations on broadcasts.
pub fn operations() -> Vec<Operation> {
    let mut stopped = example();
    stopped["status"] = json!("ending");
    vec![
        operation(Method::Post, "/v1/rooms/{name}/broadcasts", "start_broadcast", start)
            .about("broadcasts", "Start a broadcast")
            .example(json!({"urls": ["rtmp://8.8.8.8/app/stream-key"], "layout": "grid"}))
            .body_rule("oneOf", json!([{"required": ["urls"]}, {"required": ["destination"]}]))
            .responds::<Broadcast<'_>>(&[201], example())
            .links(&["get_broadcast", "stop_broadcast"], &[("egress_id", "$response.body#/egress_id")])
            .check(check_urls)
            .room_token(&[Permission::Broadcast])
            .idempotent()
            .starts_work()
            .feature(Feature::Streaming)
            .errors(&[
                ErrorCode::InvalidRoomName,
                ErrorCode::InvalidUrl,
                ErrorCode::BlockedUrl,
                ErrorCode::QuotaExceeded,
                ErrorCode::InsufficientBalance,
                ErrorCode::FeatureNotInPlan,
                ErrorCode::RoomNotFound,
                ErrorCode::TemplateNotFound,
                ErrorCode::DestinationNotFound,
                ErrorCode::RoomEnded,
                ErrorCode::BroadcastExists,
                ErrorCode::MediaUnavailable,
                ErrorCode::DestinationUnusable,
                ErrorCode::BillingUnavailable,
            ])
            .build(),
        operation(Method::Get, "/v1/broadcasts", "list_broadcasts", list)
            .about("broadcasts", "List the project's broadcasts, newest first")
            .responds_page::<Broadcast<'_>>("broadcasts", example())
            .errors(&[ErrorCode::InvalidRequest, ErrorCode::InvalidRoomName])
            .build(),
        operation(Method::Get, "/v1/broadcasts/{egress_id}", "get_broadcast", get)
            .about("broadcasts", "Read a broadcast; while it runs, the media plane is asked for its status")
            .responds::<Broadcast<'_>>(&[200], example())
            .errors(&[ErrorCode::InvalidRequest, ErrorCode::BroadcastNotFound, ErrorCode::MediaUnavailable])
            .build(),
        operation(Method::Post, "/v1/broadcasts/{egress_id}/stop", "stop_broadcast", stop)
            .about("broadcasts", "Stop a broadcast")
            .responds::<Broadcast<'_>>(&[200], stopped)
            .room_token(&[Permission::Broadcast])
            .replay_check(|context, input| BROADCASTS.check_stop_replay(context, input))
            .idempotent()
            .errors(&[ErrorCode::InvalidRequest, ErrorCode::BroadcastNotFound, ErrorCode::MediaUnavailable])
            .build(),
    ]
}

fn render_created(egress: &Egress) -> Response {
    response::created(&Broadcast::from_egress(egress))
}

fn render_ok(egress: &Egress) -> Response {
    response::ok(&Broadcast::from_egress(egress))
}

/// The receivers of a broadcast, as the body names them.
enum Target {
    Urls(Vec<RtmpUrl>),
    Destination(DestinationName),
}

/// What is to be broadcast, and where to, as far as the body alone says.
pub struct ValidBroadcast {
    source: EgressSource,
    target: Target,
}

impl Validate for StartBroadcast {
    type Valid = ValidBroadcast;

    fn validate(self) -> Result<ValidBroadcast, Problem> {
        let audio_only = self.audio_only.unwrap_or(false);
        let source = EgressSource::RoomComposite {
            layout: self.layout.unwrap_or(Layout::Grid),
            media: if audio_only { CompositeMedia::AudioOnly } else { CompositeMedia::Both },
        };
        let target = match (self.urls, self.destination) {
            (Some(_), Some(_)) => {
                return Err(Problem::invalid("destination", "urls and destination exclude each other"));
            }
            (None, None) => return Err(Problem::invalid("urls", "is required unless destination is given")),
            (Some(urls), None) => Target::Urls(parse_urls("urls", &urls)?),
            (None, Some(name)) => Target::Destination(name),
        };
        Ok(ValidBroadcast { source, target })
    }
}

/// Refuses urls inside the operator's network.
fn check_urls<'a>(
    context: &'a RequestContext,
    input: &'a Input<RoomPath, NoParams, Checked<StartBroadcast>>,
) -> CheckResult<'a> {
    Box::pin(async move {
        match &input.body.0.target {
            Target::Urls(urls) => check_hosts(&context.state.egress_addresses, rtmp_hosts("urls", urls)).await,
            Target::Destination(_) => Ok(()),
        }
    })
}

async fn list(
    context: RequestContext,
    input: Input<NoParams, Paged<EgressQuery>, NoBody>,
) -> Result<Response, ApiError> {
    let broadcasts = BROADCASTS.list(&context, input.query).await?;
    Ok(response::page("broadcasts", &broadcasts.as_ref().map(Broadcast::from_egress)))
}

async fn get(context: RequestContext, input: Input<EgressPath, NoParams, NoBody>) -> Result<Response, ApiError> {
    Ok(render_ok(&BROADCASTS.get(&context, input.path.egress_id).await?))
}

async fn stop(context: RequestContext, input: Input<EgressPath, NoParams, NoBody>) -> Result<Response, ApiError> {
    BROADCASTS.stop(&context, input.path.egress_id, render_ok).await
}

async fn start(
    context: RequestContext,
    input: Input<RoomPath, NoParams, Checked<StartBroadcast>>,
) -> Result<Response, ApiError> {
    let Checked(ValidBroadcast { source, target }) = input.body;
    let room = context.state.store.room(context.project(), input.path.name).await?;
    let name = if let Target::Destination(name) = &target { Some(name) } else { None };
    let found = BROADCASTS.destination(&context, &room, name).await?;
    let (used, urls) = receivers(target, found)?;
    if used.is_some() {
        // It was checked when it was stored, and may be another address by now.
        let hosts = urls.iter().map(|url| ("destination".to_owned(), url.host().to_owned()));
        check_hosts(&context.state.egress_addresses, hosts.collect()).await?;
    }
    let detail = EgressDetail::Broadcast { urls: urls.iter().map(|url| url.redacted().to_owned()).collect() };
    BROADCASTS.start(&context, room, source, (detail, EgressOutput::Streams(urls)), used, render_created).await
}

/// The name for the record, the urls for the media plane.
fn receivers(
    target: Target,
    found: Option<(UsedDestination, DestinationConfig)>,
) -> Result<(Option<UsedDestination>, Vec<RtmpUrl>), ApiError> {
    match (target, found) {
        (Target::Urls(urls), _) => Ok((None, urls)),
        (Target::Destination(_), Some((used, DestinationConfig::Rtmp(rtmp)))) => Ok((Some(used), rtmp.urls)),
        (Target::Destination(_), _) => Err(ApiError::internal("a destination's configuration is not of its kind")),
    }
}
