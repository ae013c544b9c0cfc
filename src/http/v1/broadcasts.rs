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
use conclave_model::{DestinationName, ErrorCode, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::jobs::{FILTERS, Resource};
use crate::http::answer::{self, Response};
use crate::http::call::{Call, id};
use crate::http::egress_address::{check_hosts, rtmp_hosts};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Auth, Method, Operation};
use crate::http::problem::Problem;

const BROADCASTS: Resource = Resource {
    kind: EgressKind::Broadcast,
    permission: Permission::Broadcast,
    feature: Feature::Streaming,
    destinations: DestinationKind::Rtmp,
};

/// A broadcast to be started.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartBroadcast {
    /// 1 to 8 `rtmp://` or `rtmps://` urls. Required unless `destination` is given, and not beside it.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false, min_items = 1, max_items = 8)]
    urls: Option<Vec<String>>,
    /// An rtmp destination of the room's template. Not beside `urls`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(pattern = "^[a-zA-Z0-9_-]{1,64}$", nullable = false)]
    destination: Option<String>,
    /// Default grid.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    layout: Option<Layout>,
    /// Sound alone.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    audio_only: Option<bool>,
}

/// A broadcast.
#[derive(Serialize, ToSchema)]
pub struct Broadcast<'a> {
    id: uuid::Uuid,
    project_id: &'a str,
    room: &'a str,
    namespaced_room: String,
    /// The handle for every later call.
    egress_id: &'a str,
    /// Where it goes, each stream key replaced by `REDACTED`.
    urls: &'a [String],
    status: EgressStatus,
    /// The destination used, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    destination: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    destination_id: Option<&'a str>,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Absent until it is final.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    ended_at: Option<Timestamp>,
    /// Set when the status is `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<&'a str>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl<'a> Broadcast<'a> {
    /// `None` for a recording, which no query of this resource finds.
    fn of(job: &'a Egress) -> Option<Self> {
        let EgressDetail::Broadcast { urls } = &job.detail else { return None };
        Some(Self {
            id: job.id.0,
            project_id: job.project_id.as_str(),
            room: job.room.as_str(),
            namespaced_room: job.namespaced_room().to_string(),
            egress_id: job.egress_id.as_str(),
            urls,
            status: job.status,
            destination: job.destination.as_ref().map(|used| used.name.as_str()),
            destination_id: job.destination.as_ref().map(|used| used.id.as_str()),
            started_at: job.started_at,
            ended_at: job.ended_at,
            error: job.error.as_deref(),
            created_at: job.created_at,
        })
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

/// Broadcasts.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "start_broadcast",
        Method::Post,
        "/v1/rooms/{name}/broadcasts",
        &[201],
        |call| Box::pin(start(call)),
        || {
            Doc::new("broadcasts", "Start a broadcast")
                .path(Param::ROOM)
                .body::<StartBroadcast>(json!({"urls": ["rtmp://8.8.8.8/app/stream-key"], "layout": "grid"}))
                .answer::<Broadcast<'_>>(example())
        },
    )
    .auth(Auth::KeyOrRoomToken(&[Permission::Broadcast]))
    .idempotent()
    .codes(&[
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
    ]),
    Operation::new(
        "list_broadcasts",
        Method::Get,
        "/v1/broadcasts",
        &[200],
        |call| Box::pin(list(call)),
        || {
            let doc = Doc::new("broadcasts", "List the project's broadcasts, newest first");
            doc.page::<Broadcast<'_>>("broadcasts", example(), FILTERS)
        },
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::InvalidRoomName]),
    Operation::new(
        "get_broadcast",
        Method::Get,
        "/v1/broadcasts/{egress_id}",
        &[200],
        |call| Box::pin(async move { BROADCASTS.get(&call).await.map(|job| render_ok(&job)) }),
        || {
            Doc::new("broadcasts", "Read a broadcast; while it runs, the media plane is asked how it stands")
                .path(Param::EGRESS)
                .answer::<Broadcast<'_>>(example())
        },
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::BroadcastNotFound, ErrorCode::MediaUnavailable]),
    Operation::new(
        "stop_broadcast",
        Method::Post,
        "/v1/broadcasts/{egress_id}/stop",
        &[200],
        |call| Box::pin(async move { BROADCASTS.stop(&call, render_ok).await }),
        || {
            let mut stopped = example();
            stopped["status"] = json!("ending");
            let doc = Doc::new("broadcasts", "Stop a broadcast").path(Param::EGRESS);
            doc.answer::<Broadcast<'_>>(stopped)
        },
    )
    .auth(Auth::KeyOrRoomToken(&[Permission::Broadcast]))
    .idempotent()
    .replays_to(|call| Box::pin(BROADCASTS.permit_stop(call)))
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::BroadcastNotFound, ErrorCode::MediaUnavailable]),
];

fn render_created(job: &Egress) -> Response {
    answer::created(&Broadcast::of(job))
}

fn render_ok(job: &Egress) -> Response {
    answer::ok(&Broadcast::of(job))
}

async fn list(call: Call) -> Result<Response, Problem> {
    let jobs = BROADCASTS.list(&call).await?;
    Ok(answer::page("broadcasts", &jobs.as_ref().map(Broadcast::of)))
}

/// Where a broadcast is to go.
enum Target {
    Urls(Vec<RtmpUrl>),
    Destination(DestinationName),
}

impl StartBroadcast {
    fn target(&self) -> Result<Target, Problem> {
        match (&self.urls, &self.destination) {
            (Some(_), Some(_)) => Err(Problem::invalid("destination", "urls and destination exclude each other")),
            (None, None) => Err(Problem::invalid("urls", "is required unless destination is given")),
            (Some(urls), None) => parse_urls("urls", urls).map(Target::Urls),
            (None, Some(name)) => id("destination", name).map(Target::Destination),
        }
    }

    fn source(&self) -> EgressSource {
        let audio_only = self.audio_only.unwrap_or(false);
        EgressSource::RoomComposite {
            layout: self.layout.unwrap_or(Layout::Grid),
            media: if audio_only { CompositeMedia::AudioOnly } else { CompositeMedia::Both },
        }
    }
}

async fn start(call: Call) -> Result<Response, Problem> {
    let name = call.room()?;
    call.no_query()?;
    let body: StartBroadcast = call.read()?;
    let (target, source) = (body.target()?, body.source());
    if let Target::Urls(urls) = &target {
        check_hosts(&call.state.egress_addresses, rtmp_hosts("urls", urls)).await?;
    }
    let room = BROADCASTS.room_to_start_in(&call, name).await?;
    let named = if let Target::Destination(name) = &target { Some(name) } else { None };
    let found = BROADCASTS.destination(&call, &room, named).await?;
    let (used, urls) = receivers(target, found)?;
    let detail = EgressDetail::Broadcast { urls: urls.iter().map(|url| url.redacted().to_owned()).collect() };
    BROADCASTS.start(&call, &room, (source, EgressOutput::Streams(urls)), (detail, used), render_created).await
}

/// The name for the record, the urls for the media plane.
fn receivers(
    target: Target,
    found: Option<(UsedDestination, DestinationConfig)>,
) -> Result<(Option<UsedDestination>, Vec<RtmpUrl>), Problem> {
    match (target, found) {
        (Target::Urls(urls), _) => Ok((None, urls)),
        (Target::Destination(_), Some((used, DestinationConfig::Rtmp(rtmp)))) => Ok((Some(used), rtmp.urls)),
        (Target::Destination(_), _) => {
            Err(Problem::internal().because("a destination's configuration is not of its kind"))
        }
    }
}
