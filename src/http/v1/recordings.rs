//! Recordings.

use conclave_model::egress::{
    CompositeMedia, Egress, EgressDetail, EgressKind, EgressOutput, EgressSource, EgressStatus, Layout, RecordingType,
    UsedDestination,
};
use conclave_model::filepath::FilePath;
use conclave_model::non_null::non_null;
use conclave_model::page::Page;
use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use conclave_model::room::Room;
use conclave_model::{DestinationName, ErrorCode, Identity, Problem, TrackSid};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::egress::{EgressHead, EgressPath, EgressQuery, EgressTail, Resource, named_destination};
use crate::http::context::RequestContext;
use crate::http::error::ApiError;
use crate::http::input::path::RoomPath;
use crate::http::input::{Checked, Input, NoBody, NoParams, Paged, Validate};
use crate::http::operation::{Operation, operation};
use crate::http::response::{self, Response};
use crate::http::spec::Method;

const RECORDINGS: Resource = Resource { kind: EgressKind::Recording };

/// A recording to start.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRecording {
    #[serde(rename = "type")]
    recording_type: RecordingType,
    /// The track; with type `track`, and with no other.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    track_id: Option<TrackSid>,
    /// The participant; with type `participant`, and with no other.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    identity: Option<Identity>,
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
    #[schema(value_type = Option<FilePath>, nullable = false)]
    filepath: Option<String>,
    /// A recording destination of the room's template. Without one the file is written to the project's local directory.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    destination: Option<DestinationName>,
}

/// A recording.
#[derive(Serialize, ToSchema)]
pub struct Recording<'a> {
    #[serde(flatten)]
    head: EgressHead<'a>,
    #[serde(rename = "type")]
    recording_type: RecordingType,
    status: EgressStatus,
    /// Inside the project's recording directory, or the destination.
    filepath: &'a str,
    #[serde(flatten)]
    tail: EgressTail<'a>,
}

impl<'a> Recording<'a> {
    /// `None` for a broadcast, which no query of this resource gives.
    fn from_egress(egress: &'a Egress) -> Option<Self> {
        let EgressDetail::Recording { recording_type, filepath } = &egress.detail else { return None };
        Some(Self {
            head: egress.into(),
            recording_type: *recording_type,
            status: egress.status,
            filepath: filepath.as_str(),
            tail: egress.into(),
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

/// Which fields go with which type, as JSON Schema.
fn options_by_type() -> serde_json::Value {
    let both = json!({
        "required": ["audio_only", "video_only"],
        "properties": {"audio_only": {"const": true}, "video_only": {"const": true}}
    });
    json!([
        {"not": both, "properties": {"type": {"const": "room_composite"}, "track_id": false, "identity": false}},
        {"required": ["track_id"], "properties": {
            "type": {"const": "track"}, "identity": false, "layout": false, "audio_only": false, "video_only": false
        }},
        {"required": ["identity"], "properties": {
            "type": {"const": "participant"}, "track_id": false, "layout": false, "audio_only": false, "video_only": false
        }}
    ])
}

/// The operations on recordings.
pub fn operations() -> Vec<Operation> {
    let mut stopped = example();
    stopped["status"] = json!("ending");
    vec![
        operation(Method::Get, "/v1/rooms/{name}/recordings", "list_room_recordings", list_of_room)
            .about("recordings", "List a room's recordings, newest first")
            .responds_page::<Recording<'_>>("recordings", example())
            .errors(&[ErrorCode::InvalidRequest, ErrorCode::InvalidRoomName, ErrorCode::RoomNotFound])
            .build(),
        operation(Method::Post, "/v1/rooms/{name}/recordings", "start_recording", start)
            .about("recordings", "Start a recording")
            .example(json!({"type": "room_composite", "layout": "grid"}))
            .body_rule("oneOf", options_by_type())
            .responds::<Recording<'_>>(&[201], example())
            .links(&["get_recording", "stop_recording"], &[("egress_id", "$response.body#/egress_id")])
            .room_token(&[Permission::Record])
            .idempotent()
            .starts_work()
            .feature(Feature::Recording)
            .errors(&[
                ErrorCode::InvalidRoomName,
                ErrorCode::InvalidIdentity,
                ErrorCode::InvalidFilepath,
                ErrorCode::QuotaExceeded,
                ErrorCode::InsufficientBalance,
                ErrorCode::FeatureNotInPlan,
                ErrorCode::RoomNotFound,
                ErrorCode::TrackNotFound,
                ErrorCode::TemplateNotFound,
                ErrorCode::DestinationNotFound,
                ErrorCode::RoomEnded,
                ErrorCode::RecordingExists,
                ErrorCode::MediaUnavailable,
                ErrorCode::DestinationUnusable,
                ErrorCode::BillingUnavailable,
            ])
            .build(),
        operation(Method::Get, "/v1/recordings", "list_recordings", list)
            .about("recordings", "List the project's recordings, newest first")
            .responds_page::<Recording<'_>>("recordings", example())
            .errors(&[ErrorCode::InvalidRequest, ErrorCode::InvalidRoomName])
            .build(),
        operation(Method::Get, "/v1/recordings/{egress_id}", "get_recording", get)
            .about("recordings", "Read a recording; while it runs, the media plane is asked for its status")
            .responds::<Recording<'_>>(&[200], example())
            .errors(&[ErrorCode::InvalidRequest, ErrorCode::RecordingNotFound, ErrorCode::MediaUnavailable])
            .build(),
        operation(Method::Post, "/v1/recordings/{egress_id}/stop", "stop_recording", stop)
            .about("recordings", "Stop a recording; the file is final shortly after")
            .responds::<Recording<'_>>(&[200], stopped)
            .room_token(&[Permission::Record])
            .replay_check(|context, input| RECORDINGS.check_stop_replay(context, input))
            .idempotent()
            .errors(&[ErrorCode::InvalidRequest, ErrorCode::RecordingNotFound, ErrorCode::MediaUnavailable])
            .build(),
    ]
}

fn page(recordings: &Page<Egress>) -> Response {
    response::page("recordings", &recordings.as_ref().map(Recording::from_egress))
}

fn render_created(egress: &Egress) -> Response {
    response::created(&Recording::from_egress(egress))
}

fn render_ok(egress: &Egress) -> Response {
    response::ok(&Recording::from_egress(egress))
}

/// What is to be recorded, and where to, as far as the body alone says.
pub struct ValidRecording {
    source: EgressSource,
    filepath: Option<FilePath>,
    destination: Option<DestinationName>,
}

impl Validate for StartRecording {
    type Valid = ValidRecording;

    fn validate(self) -> Result<ValidRecording, Problem> {
        self.refuse_fields_of_other_types()?;
        let source = self.source()?;
        let refuse = |error| Problem::new(ErrorCode::InvalidFilepath, format!("{error}")).at("filepath");
        let filepath = self.filepath.as_deref().map(FilePath::requested).transpose().map_err(refuse)?;
        Ok(ValidRecording { source, filepath, destination: self.destination })
    }
}

impl StartRecording {
    fn source(&self) -> Result<EgressSource, Problem> {
        let missing =
            |field: &'static str, kind: &str| Problem::invalid(field, format!("is required with type {kind}"));
        match self.recording_type {
            RecordingType::RoomComposite => {
                let layout = self.layout.unwrap_or(Layout::Speaker);
                Ok(EgressSource::RoomComposite { layout, media: self.media()? })
            }
            RecordingType::Track => {
                self.track_id.clone().map(EgressSource::Track).ok_or_else(|| missing("track_id", "track"))
            }
            RecordingType::Participant => {
                let identity = self.identity.clone().ok_or_else(|| missing("identity", "participant"))?;
                Ok(EgressSource::Participant(identity))
            }
        }
    }

    /// Fields of another type are refused, so that no caller believes they had an effect.
    fn refuse_fields_of_other_types(&self) -> Result<(), Problem> {
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

async fn list(
    context: RequestContext,
    input: Input<NoParams, Paged<EgressQuery>, NoBody>,
) -> Result<Response, ApiError> {
    Ok(page(&RECORDINGS.list(&context, input.query).await?))
}

async fn list_of_room(
    context: RequestContext,
    input: Input<RoomPath, Paged<NoParams>, NoBody>,
) -> Result<Response, ApiError> {
    Ok(page(&RECORDINGS.list_of_room(&context, input).await?))
}

async fn get(context: RequestContext, input: Input<EgressPath, NoParams, NoBody>) -> Result<Response, ApiError> {
    Ok(render_ok(&RECORDINGS.get(&context, input.path.egress_id).await?))
}

async fn stop(context: RequestContext, input: Input<EgressPath, NoParams, NoBody>) -> Result<Response, ApiError> {
    RECORDINGS.stop(&context, input.path.egress_id, render_ok).await
}

async fn start(
    context: RequestContext,
    input: Input<RoomPath, NoParams, Checked<StartRecording>>,
) -> Result<Response, ApiError> {
    let Checked(ValidRecording { source, filepath, destination }) = input.body;
    let (store, project) = (&context.state.store, context.project());
    let room = store.room(project.clone(), input.path.name).await?;
    let read = |template, name| store.recording_destination(project, template, name);
    let destination = named_destination(&context, &room, destination, read).await?;
    let filepath = filepath.unwrap_or_else(|| default_path(&context, &room, &source));
    let taken = taken_paths(&context, destination.as_ref(), &filepath).await?;
    let output = EgressOutput::File { filepath, taken };
    RECORDINGS.start(&context, &room, source, output, destination, render_created).await
}

/// The paths of earlier recordings at a destination that a file could overwrite.
async fn taken_paths(
    context: &RequestContext,
    used: Option<&UsedDestination>,
    filepath: &FilePath,
) -> Result<Vec<FilePath>, ApiError> {
    let Some(used) = used else { return Ok(Vec::new()) };
    let stem = filepath.split_extension().0.to_owned();
    Ok(context.state.store.filepaths_at(context.project(), used.id.clone(), stem).await?)
}

fn default_path(context: &RequestContext, room: &Room, source: &EgressSource) -> FilePath {
    let audio_only = matches!(source, EgressSource::RoomComposite { media: CompositeMedia::AudioOnly, .. });
    FilePath::timestamped(&room.name, context.state.clock.now(), audio_only)
}
