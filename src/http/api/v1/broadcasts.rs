//! Broadcasts.

use conclave_db::BroadcastDestination;
use conclave_model::egress::{
    CompositeMedia, Egress, EgressDetail, EgressKind, EgressOutput, EgressSource, EgressStatus,
    Layout,
};
use conclave_model::non_null::non_null;
use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use conclave_model::rtmp::{RtmpUrl, parse_urls};
use conclave_model::{DestinationName, ErrorCode, Problem};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::egress::{self, EgressHead, EgressJson, EgressTail, named_destination};
use crate::http::api::context::RequestContext;
use crate::http::api::error::{ApiError, Result};
use crate::http::api::input::parameters::RoomPath;
use crate::http::api::input::{Checked, Input, NoParams, Validate};
use crate::http::api::operation::{CheckResult, Operation, operation};
use crate::http::api::response::{Created, Listed};
use crate::http::api::spec::Method;
use crate::http::media::egress_address::{check_hosts, rtmp_hosts};

/// A broadcast to start.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartBroadcast {
    /// 1 to 8 `rtmp://` or `rtmps://` URLs. Required without `destination`; mutually exclusive with it.
    #[serde(default, deserialize_with = "non_null")]
    // Texts here, because `parse_urls` refuses each by its position, such as `urls[2]`.
    #[schema(value_type = Option<Vec<RtmpUrl>>, nullable = false, min_items = 1, max_items = 8)]
    urls: Option<Vec<String>>,
    /// An RTMP destination of the room's template. Mutually exclusive with `urls`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    destination: Option<DestinationName>,
    /// Arrangement of the participants; default grid.
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
pub struct Broadcast {
    #[serde(flatten)]
    pub head: EgressHead,
    /// The receiving URLs, each stream key replaced by `REDACTED`.
    pub urls: Vec<String>,
    pub status: EgressStatus,
    #[serde(flatten)]
    pub tail: EgressTail,
}

impl TryFrom<Egress> for Broadcast {
    type Error = ApiError;

    /// Fails for a recording, which no query of this resource returns.
    fn try_from(egress: Egress) -> Result<Self> {
        let (head, detail, status, tail) = EgressHead::split(egress);
        let EgressDetail::Broadcast { urls } = detail else {
            return Err(ApiError::internal("a recording was read as a broadcast"));
        };
        Ok(Self {
            head,
            urls,
            status,
            tail,
        })
    }
}

impl Listed for Broadcast {
    const COLLECTION: &'static str = "broadcasts";
}

impl EgressJson for Broadcast {
    const KIND: EgressKind = EgressKind::Broadcast;
}

fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-b2c3-7d4e-9f50-6b7c8d9e0f1a", "project_id": "prj_5f2a9c01be34", "room": "standup",
        "namespaced_room": "prj_5f2a9c01be34.standup", "egress_id": "EG_4kW8nYt2vRq6",
        "urls": ["rtmp://live.example.com/app/REDACTED"], "status": "starting",
        "started_at": "2026-01-31T12:00:00.000Z", "created_at": "2026-01-31T12:00:00.010Z"
    })
}

/// Returns the operations on broadcasts.
pub fn operations() -> Vec<Box<dyn Operation>> {
    // Stopping is asynchronous: the media plane finishes the streams after the response.
    let mut stopped = example();
    stopped["status"] = json!("ending");
    vec![
        operation(
            Method::Post,
            "/v1/rooms/{name}/broadcasts",
            "start_broadcast",
            start,
        )
        .about("broadcasts", "Start a broadcast")
        // A literal public address, so that the example needs no DNS.
        .example(json!({"urls": ["rtmp://8.8.8.8/app/stream-key"], "layout": "grid"}))
        .body_rule(
            // A rule between fields, which the struct's schema cannot express.
            "oneOf",
            json!([{"required": ["urls"]}, {"required": ["destination"]}]),
        )
        .responds(example())
        .links(
            &["get_broadcast", "stop_broadcast"],
            &[("egress_id", "$response.body#/egress_id")],
        )
        // Before the permission: a URL inside the operator's network is a 400 for every caller (S-68).
        .check(check_urls)
        .room_token(&[Permission::Broadcast])
        .idempotent()
        .starts_work()
        .feature(Feature::Streaming)
        .errors(&[
            ErrorCode::InvalidUrl,
            ErrorCode::BlockedUrl,
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
        operation(
            Method::Get,
            "/v1/broadcasts",
            "list_broadcasts",
            egress::list::<Broadcast>,
        )
        .about("broadcasts", "List the project's broadcasts, newest first")
        .responds(example())
        .build(),
        operation(
            Method::Get,
            "/v1/broadcasts/{egress_id}",
            "get_broadcast",
            egress::get::<Broadcast>,
        )
        .about(
            "broadcasts",
            "Read a broadcast; while it runs, with its current status from the media plane",
        )
        .responds(example())
        .errors(&[ErrorCode::BroadcastNotFound, ErrorCode::MediaUnavailable])
        .build(),
        operation(
            Method::Post,
            "/v1/broadcasts/{egress_id}/stop",
            "stop_broadcast",
            egress::stop::<Broadcast>,
        )
        .about("broadcasts", "Stop a broadcast")
        .responds(stopped)
        .room_token(&[Permission::Broadcast])
        // The path names no room, so the room of a stored response's broadcast is checked, too.
        .replay_check(egress::check_replay::<Broadcast>)
        .idempotent()
        .errors(&[ErrorCode::BroadcastNotFound, ErrorCode::MediaUnavailable])
        .build(),
    ]
}

/// Validated source and target of a broadcast, as far as the body alone determines them.
pub struct ValidBroadcast {
    source: EgressSource,
    urls: Vec<RtmpUrl>,
    destination: Option<DestinationName>,
}

impl Validate for StartBroadcast {
    type Valid = ValidBroadcast;

    fn validate(self) -> Result<ValidBroadcast, Problem> {
        let audio_only = self.audio_only.unwrap_or(false);
        let source = EgressSource::RoomComposite {
            // The contract's default for broadcasts; for recordings it is the speaker layout.
            layout: self.layout.unwrap_or(Layout::Grid),
            media: if audio_only {
                CompositeMedia::AudioOnly
            } else {
                CompositeMedia::Both
            },
        };
        let urls = match (&self.urls, &self.destination) {
            (Some(_), Some(_)) => {
                return Err(Problem::invalid(
                    "destination",
                    "urls and destination are mutually exclusive",
                ));
            }
            (None, None) => {
                return Err(Problem::invalid(
                    "urls",
                    "is required unless destination is given",
                ));
            }
            (Some(urls), None) => parse_urls("urls", urls)?,
            (None, Some(_)) => Vec::new(),
        };
        Ok(ValidBroadcast {
            source,
            urls,
            destination: self.destination,
        })
    }
}

/// Refuses URLs inside the operator's network.
fn check_urls<'a>(
    context: &'a RequestContext,
    input: &'a Input<RoomPath, NoParams, Checked<StartBroadcast>>,
) -> CheckResult<'a> {
    Box::pin(async move {
        check_hosts(
            &context.state.egress_addresses,
            rtmp_hosts("urls", &input.body.0.urls),
        )
        .await
    })
}

pub async fn start(
    context: RequestContext,
    input: Input<RoomPath, NoParams, Checked<StartBroadcast>>,
) -> Result<Created<Broadcast>> {
    let Checked(ValidBroadcast {
        source,
        urls,
        destination,
    }) = input.body;
    let (store, project) = (&context.state.store, context.project());
    let room = store.rooms().get(project.clone(), input.path.name).await?;
    let read = |template, name| store.destinations().broadcast(project, template, name);
    let (destination, urls) = match named_destination(&context, &room, destination, read).await? {
        None => (None, urls),
        Some(BroadcastDestination { used, urls }) => {
            // The hosts were checked when the destination was stored, but may resolve to other addresses now.
            let hosts = urls
                .iter()
                .map(|url| ("destination".to_owned(), url.host().to_owned()));
            check_hosts(&context.state.egress_addresses, hosts.collect()).await?;
            (Some(used), urls)
        }
    };
    egress::start(
        &context,
        &room,
        source,
        EgressOutput::Streams(urls),
        destination,
    )
    .await
}
