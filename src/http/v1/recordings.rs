//! Recordings (contract "Recordings").

use conclave_media::EgressOutput;
use conclave_model::destination::{DestinationConfig, DestinationKind};
use conclave_model::egress::{
    CompositeMedia, Egress, EgressDetail, EgressKind, EgressSource, EgressStatus, Layout, RecordingType,
    UsedDestination,
};
use conclave_model::filepath::FilePath;
use conclave_model::non_null::non_null;
use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use conclave_model::room::Room;
use conclave_model::{DestinationName, ErrorCode, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::jobs::{FILTERS, Resource};
use crate::http::answer::{self, Response};
use crate::http::call::{Call, id, identity};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Auth, Method, Operation};
use crate::http::problem::Problem;

const RECORDINGS: Resource = Resource {
    kind: EgressKind::Recording,
    permission: Permission::Record,
    feature: Feature::Recording,
    destinations: DestinationKind::Recording,
};

/// A recording to be started.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRecording {
    #[serde(rename = "type")]
    recording_type: RecordingType,
    /// The track; with type `track`, and with no other.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    track_id: Option<String>,
    /// The participant; with type `participant`, and with no other.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(pattern = "^[a-zA-Z0-9_.@-]{1,128}$", nullable = false)]
    identity: Option<String>,
    /// Default speaker. With type `room_composite` only.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    layout: Option<Layout>,
    /// Sound alone. With type `room_composite` only, and not beside `video_only`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    audio_only: Option<bool>,
    /// Picture alone. With type `room_composite` only, and not beside `audio_only`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    video_only: Option<bool>,
    /// A relative name inside the project's recording directory, or the destination. Default `{room}-{UTC time}.mp4`, or
    /// `.ogg` for sound alone.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false, max_length = 512)]
    filepath: Option<String>,
    /// A recording destination of the room's template. Left out, the file lies in the project's local directory.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(pattern = "^[a-zA-Z0-9_-]{1,64}$", nullable = false)]
    destination: Option<String>,
}

/// A recording.
#[derive(Serialize, ToSchema)]
pub struct Recording<'a> {
    id: uuid::Uuid,
    project_id: &'a str,
    room: &'a str,
    namespaced_room: String,
    /// The handle for every later call.
    egress_id: &'a str,
    #[serde(rename = "type")]
    recording_type: RecordingType,
    status: EgressStatus,
    /// Inside the project's recording directory, or the destination.
    filepath: &'a str,
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

impl<'a> Recording<'a> {
    /// `None` for a broadcast, which no query of this resource gives.
    fn of(job: &'a Egress) -> Option<Self> {
        let EgressDetail::Recording { recording_type, filepath } = &job.detail else { return None };
        Some(Self {
            id: job.id.0,
            project_id: job.project_id.as_str(),
            room: job.room.as_str(),
            namespaced_room: job.namespaced_room().to_string(),
            egress_id: job.egress_id.as_str(),
            recording_type: *recording_type,
            status: job.status,
            filepath: filepath.as_str(),
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
        "id": "0191d2c4-a1b2-7c3d-8e4f-5a6b7c8d9e0f", "project_id": "prj_5f2a9c01be34", "room": "standup",
        "namespaced_room": "prj_5f2a9c01be34.standup", "egress_id": "EG_7hQ2mZk9xLp4", "type": "room_composite",
        "status": "starting", "filepath": "standup-20260131T120000.000Z.mp4",
        "started_at": "2026-01-31T12:00:00.000Z", "created_at": "2026-01-31T12:00:00.010Z"
    })
}

/// Recordings.
pub const OPERATIONS: &[Operation] =
    &[
        Operation::new(
            "list_room_recordings",
            Method::Get,
            "/v1/rooms/{name}/recordings",
            &[200],
            |call| Box::pin(async move { Ok(page(&RECORDINGS.list_of_room(&call).await?)) }),
            || {
                Doc::new("recordings", "List a room's recordings, newest first")
                    .path(Param::ROOM)
                    .page::<Recording<'_>>("recordings", example(), &[])
            },
        )
        .codes(&[ErrorCode::InvalidRequest, ErrorCode::InvalidRoomName, ErrorCode::RoomNotFound]),
        Operation::new(
            "start_recording",
            Method::Post,
            "/v1/rooms/{name}/recordings",
            &[201],
            |call| Box::pin(start(call)),
            || {
                Doc::new("recordings", "Start a recording")
                    .path(Param::ROOM)
                    .body::<StartRecording>(json!({"type": "room_composite", "layout": "grid"}))
                    .answer::<Recording<'_>>(example())
            },
        )
        .auth(Auth::KeyOrRoomToken(&[Permission::Record]))
        .idempotent()
        .codes(&[
            ErrorCode::InvalidRoomName,
            ErrorCode::InvalidIdentity,
            ErrorCode::InvalidFilepath,
            ErrorCode::QuotaExceeded,
            ErrorCode::InsufficientBalance,
            ErrorCode::FeatureNotInPlan,
            ErrorCode::RoomNotFound,
            ErrorCode::TemplateNotFound,
            ErrorCode::DestinationNotFound,
            ErrorCode::RoomEnded,
            ErrorCode::RecordingExists,
            ErrorCode::MediaUnavailable,
            ErrorCode::DestinationUnusable,
            ErrorCode::BillingUnavailable,
        ]),
        Operation::new(
            "list_recordings",
            Method::Get,
            "/v1/recordings",
            &[200],
            |call| Box::pin(async move { Ok(page(&RECORDINGS.list(&call).await?)) }),
            || {
                let doc = Doc::new("recordings", "List the project's recordings, newest first");
                doc.page::<Recording<'_>>("recordings", example(), FILTERS)
            },
        )
        .codes(&[ErrorCode::InvalidRequest, ErrorCode::InvalidRoomName]),
        Operation::new(
            "get_recording",
            Method::Get,
            "/v1/recordings/{egress_id}",
            &[200],
            |call| Box::pin(async move { RECORDINGS.get(&call).await.map(|job| render_ok(&job)) }),
            || {
                Doc::new("recordings", "Read a recording; while it runs, the media plane is asked how it stands")
                    .path(Param::EGRESS)
                    .answer::<Recording<'_>>(example())
            },
        )
        .codes(&[ErrorCode::InvalidRequest, ErrorCode::RecordingNotFound, ErrorCode::MediaUnavailable]),
        Operation::new(
            "stop_recording",
            Method::Post,
            "/v1/recordings/{egress_id}/stop",
            &[200],
            |call| Box::pin(async move { RECORDINGS.stop(&call, render_ok).await }),
            || {
                let mut stopped = example();
                stopped["status"] = json!("ending");
                Doc::new("recordings", "Stop a recording; the file is final shortly after")
                    .path(Param::EGRESS)
                    .answer::<Recording<'_>>(stopped)
            },
        )
        .auth(Auth::KeyOrRoomToken(&[Permission::Record]))
        .idempotent()
        .replays_to(|call| Box::pin(RECORDINGS.permit_stop(call)))
        .codes(&[ErrorCode::InvalidRequest, ErrorCode::RecordingNotFound, ErrorCode::MediaUnavailable]),
    ];

fn page(jobs: &conclave_model::page::Page<Egress>) -> Response {
    answer::page("recordings", &jobs.as_ref().map(Recording::of))
}

fn render_created(job: &Egress) -> Response {
    answer::created(&Recording::of(job))
}

fn render_ok(job: &Egress) -> Response {
    answer::ok(&Recording::of(job))
}

/// What was asked for, as far as the body alone tells.
struct Wanted {
    source: EgressSource,
    filepath: Option<FilePath>,
    destination: Option<DestinationName>,
}

impl StartRecording {
    fn parse(self) -> Result<Wanted, Problem> {
        self.refuse_what_does_not_belong()?;
        let missing =
            |field: &'static str, kind: &str| Problem::invalid(field, format!("is required with type {kind}"));
        let source = match self.recording_type {
            RecordingType::RoomComposite => {
                EgressSource::RoomComposite { layout: self.layout.unwrap_or(Layout::Speaker), media: self.media()? }
            }
            RecordingType::Track => {
                let track = self.track_id.as_deref().ok_or_else(|| missing("track_id", "track"))?;
                EgressSource::Track(id("track_id", track)?)
            }
            RecordingType::Participant => {
                let who = self.identity.as_deref().ok_or_else(|| missing("identity", "participant"))?;
                EgressSource::Participant(identity("identity", who)?)
            }
        };
        let destination = self.destination.as_deref().map(|name| id("destination", name)).transpose()?;
        let refuse = |error: conclave_model::filepath::ParseFilePathError| {
            Problem::new(ErrorCode::InvalidFilepath, error.to_string()).at("filepath")
        };
        let filepath = self.filepath.as_deref().map(|path| path.parse().map_err(refuse)).transpose()?;
        Ok(Wanted { source, filepath, destination })
    }

    /// Fields that belong to another type are refused, so that nobody takes them to have been heeded.
    fn refuse_what_does_not_belong(&self) -> Result<(), Problem> {
        let sent = [
            ("track_id", self.track_id.is_some(), RecordingType::Track),
            ("identity", self.identity.is_some(), RecordingType::Participant),
            ("layout", self.layout.is_some(), RecordingType::RoomComposite),
            ("audio_only", self.audio_only.is_some(), RecordingType::RoomComposite),
            ("video_only", self.video_only.is_some(), RecordingType::RoomComposite),
        ];
        match sent.into_iter().find(|(_, sent, of)| *sent && *of != self.recording_type) {
            Some((field, _, of)) => Err(Problem::invalid(field, format!("goes with type {} only", of.as_str()))),
            None => Ok(()),
        }
    }

    fn media(&self) -> Result<CompositeMedia, Problem> {
        match (self.audio_only.unwrap_or(false), self.video_only.unwrap_or(false)) {
            (false, false) => Ok(CompositeMedia::Both),
            (true, false) => Ok(CompositeMedia::AudioOnly),
            (false, true) => Ok(CompositeMedia::VideoOnly),
            (true, true) => Err(Problem::invalid("video_only", "audio_only and video_only exclude each other")),
        }
    }
}

async fn start(call: Call) -> Result<Response, Problem> {
    let name = call.room()?;
    call.no_query()?;
    let wanted = call.read::<StartRecording>()?.parse()?;
    let room = RECORDINGS.room_to_start_in(&call, name).await?;
    let destination = RECORDINGS.destination(&call, &room, wanted.destination.as_ref()).await?;
    let filepath = wanted.filepath.unwrap_or_else(|| default_path(&call, &room, &wanted.source));
    let detail =
        EgressDetail::Recording { recording_type: RecordingType::from(&wanted.source), filepath: filepath.clone() };
    let (used, storage) = split(destination)?;
    let output = EgressOutput::File { filepath, destination: storage };
    RECORDINGS.start(&call, &room, (wanted.source, output), (detail, used), render_created).await
}

fn default_path(call: &Call, room: &Room, source: &EgressSource) -> FilePath {
    let audio_only = matches!(source, EgressSource::RoomComposite { media: CompositeMedia::AudioOnly, .. });
    FilePath::timestamped(&room.name, call.state.clock.now(), audio_only)
}

type Storage = conclave_model::destination::RecordingConfig;

/// The name for the record, the configuration for the media plane.
fn split(
    found: Option<(UsedDestination, DestinationConfig)>,
) -> Result<(Option<UsedDestination>, Option<Storage>), Problem> {
    match found {
        None => Ok((None, None)),
        Some((used, DestinationConfig::Recording(storage))) => Ok((Some(used), Some(storage))),
        Some((_, DestinationConfig::Rtmp(_))) => {
            Err(Problem::internal().because("a destination's configuration is not of its kind"))
        }
    }
}
