//! Recordings.

use conclave_actors::recording::FileChooser;
use conclave_model::egress::{
    CompositeMedia, Egress, EgressDetail, EgressKind, EgressSource, EgressStatus, Layout,
    RecordingType,
};
use conclave_model::filepath::FilePath;
use conclave_model::non_null::non_null;
use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use conclave_model::{DestinationName, ErrorCode, Identity, Problem, TrackSid};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::egress::{self, EgressHead, EgressJson, EgressTail, named_destination};
use crate::http::api::context::RequestContext;
use crate::http::api::error::{ApiError, Result};
use crate::http::api::input::parameters::RoomPath;
use crate::http::api::input::{Checked, Input, NoParams, Validate};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Created, Listed};
use crate::http::api::spec::{Method, extension};

/// A recording to start.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRecording {
    #[serde(rename = "type")]
    recording_type: RecordingType,
    /// The track. Only for `track`, where it is required.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    track_id: Option<TrackSid>,
    /// The participant. Only for `participant`, where it is required.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    identity: Option<Identity>,
    /// Default speaker. Only for `room_composite`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    layout: Option<Layout>,
    /// Record audio only. Only for `room_composite`; mutually exclusive with `video_only`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    audio_only: Option<bool>,
    /// Record video only. Only for `room_composite`; mutually exclusive with `audio_only`.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    video_only: Option<bool>,
    /// A relative path inside the project's recording directory, or the destination. Default `{room}-{UTC time}.mp4`, or `.ogg` for
    /// audio only, including an audio track.
    #[serde(default, deserialize_with = "non_null")]
    // A text here, because a refused path has a code of its own, `invalid_filepath`.
    #[schema(value_type = Option<FilePath>, nullable = false)]
    filepath: Option<String>,
    /// A recording destination of the room's template. Without one, the file is written to the project's local directory.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    destination: Option<DestinationName>,
}

/// A recording.
#[derive(Serialize, ToSchema)]
pub struct Recording {
    #[serde(flatten)]
    pub head: EgressHead,
    #[serde(rename = "type")]
    pub recording_type: RecordingType,
    pub status: EgressStatus,
    /// Path inside the project's recording directory, or the destination.
    #[schema(value_type = String)]
    pub filepath: FilePath,
    #[serde(flatten)]
    pub tail: EgressTail,
    /// Whether it is paused; absent if it has never been paused.
    // Absent rather than null: the contract's recordings do not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = extension::<bool>)]
    pub paused: Option<bool>,
}

impl TryFrom<Egress> for Recording {
    type Error = ApiError;

    /// Fails for a broadcast, which no query of this resource returns.
    fn try_from(egress: Egress) -> Result<Self> {
        // A recording that has ended is no longer paused.
        let paused = egress.paused.map(|paused| paused && egress.is_running());
        let (head, detail, status, tail) = EgressHead::split(egress);
        let EgressDetail::Recording {
            recording_type,
            filepath,
        } = detail
        else {
            return Err(ApiError::internal("a broadcast was read as a recording"));
        };
        Ok(Self {
            head,
            recording_type,
            status,
            filepath,
            tail,
            paused,
        })
    }
}

impl Listed for Recording {
    const COLLECTION: &'static str = "recordings";
}

impl EgressJson for Recording {
    const KIND: EgressKind = EgressKind::Recording;
}

pub(in crate::http::api) fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-a1b2-7c3d-8e4f-5a6b7c8d9e0f", "project_id": "prj_5f2a9c01be34", "room": "standup",
        "namespaced_room": "prj_5f2a9c01be34.standup", "egress_id": "EG_7hQ2mZk9xLp4", "type": "room_composite",
        "status": "starting", "filepath": "standup-20260131T120000.000Z.mp4",
        "started_at": "2026-01-31T12:00:00.000Z", "created_at": "2026-01-31T12:00:00.010Z"
    })
}

/// Returns the fields allowed per type, as JSON Schema.
fn options_by_type() -> serde_json::Value {
    // `audio_only: true` with `video_only: false` is no conflict.
    let both = json!({
        "required": ["audio_only", "video_only"],
        "properties": {"audio_only": {"const": true}, "video_only": {"const": true}}
    });
    json!([
        // One entry per type; `false` forbids a field.
        {"not": both, "properties": {"type": {"const": "room_composite"}, "track_id": false, "identity": false}},
        {"required": ["track_id"], "properties": {
            "type": {"const": "track"}, "identity": false, "layout": false, "audio_only": false, "video_only": false
        }},
        {"required": ["identity"], "properties": {
            "type": {"const": "participant"}, "track_id": false, "layout": false, "audio_only": false, "video_only": false
        }}
    ])
}

/// Returns the operations on recordings.
pub fn operations() -> Vec<Box<dyn Operation>> {
    // Stopping is asynchronous: the media plane completes the file after the response.
    let mut stopped = example();
    stopped["status"] = json!("ending");
    vec![
        operation(
            Method::Get,
            "/v1/rooms/{name}/recordings",
            "list_room_recordings",
            egress::list_in_room::<Recording>,
        )
        .about("recordings", "List a room's recordings, newest first")
        .responds(example())
        .errors(&[ErrorCode::RoomNotFound])
        .build(),
        operation(
            Method::Post,
            "/v1/rooms/{name}/recordings",
            "start_recording",
            start,
        )
        .about("recordings", "Start a recording")
        .example(json!({"type": "room_composite", "layout": "grid"}))
        .body_rule("oneOf", options_by_type())
        .responds(example())
        .links(
            &["get_recording", "stop_recording"],
            &[("egress_id", "$response.body#/egress_id")],
        )
        .room_token(&[Permission::Record])
        .idempotent()
        .starts_work()
        .feature(Feature::Recording)
        .errors(&[
            ErrorCode::InvalidFilepath,
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
        operation(
            Method::Get,
            "/v1/recordings",
            "list_recordings",
            egress::list::<Recording>,
        )
        .about("recordings", "List the project's recordings, newest first")
        .responds(example())
        .build(),
        operation(
            Method::Get,
            "/v1/recordings/{egress_id}",
            "get_recording",
            egress::get::<Recording>,
        )
        .about(
            "recordings",
            "Read a recording; while it runs, with its current status from the media plane",
        )
        .responds(example())
        .errors(&[ErrorCode::RecordingNotFound, ErrorCode::MediaUnavailable])
        .build(),
        operation(
            Method::Post,
            "/v1/recordings/{egress_id}/stop",
            "stop_recording",
            egress::stop::<Recording>,
        )
        .about(
            "recordings",
            "Stop a recording; its file is complete shortly after",
        )
        .responds(stopped)
        .room_token(&[Permission::Record])
        // The path names no room, so the room of a stored response's recording is checked, too.
        .replay_check(egress::check_replay::<Recording>)
        .idempotent()
        .errors(&[ErrorCode::RecordingNotFound, ErrorCode::MediaUnavailable])
        .build(),
    ]
}

/// Validated source and target of a recording, as far as the body alone determines them.
pub struct ValidRecording {
    source: EgressSource,
    filepath: Option<FilePath>,
    destination: Option<DestinationName>,
}

impl Validate for StartRecording {
    type Valid = ValidRecording;

    fn validate(self) -> Result<ValidRecording, Problem> {
        // First, so that a superfluous field is named rather than a missing one.
        self.refuse_fields_of_other_types()?;
        let source = self.source()?;
        let refuse =
            |error| Problem::new(ErrorCode::InvalidFilepath, format!("{error}")).at("filepath");
        let filepath = self
            .filepath
            .as_deref()
            .map(FilePath::requested)
            .transpose()
            .map_err(refuse)?;
        Ok(ValidRecording {
            source,
            filepath,
            destination: self.destination,
        })
    }
}

impl StartRecording {
    fn source(&self) -> Result<EgressSource, Problem> {
        let missing = |field: &'static str, kind: &str| {
            Problem::invalid(field, format!("is required for type {kind}"))
        };
        match self.recording_type {
            RecordingType::RoomComposite => {
                // The contract's default for recordings; for broadcasts it is the grid.
                let layout = self.layout.unwrap_or(Layout::Speaker);
                Ok(EgressSource::RoomComposite {
                    layout,
                    media: self.media()?,
                })
            }
            RecordingType::Track => self
                .track_id
                .clone()
                .map(EgressSource::Track)
                .ok_or_else(|| missing("track_id", "track")),
            RecordingType::Participant => {
                let identity = self
                    .identity
                    .clone()
                    .ok_or_else(|| missing("identity", "participant"))?;
                Ok(EgressSource::Participant(identity))
            }
        }
    }

    /// Refuses fields of other types, which would have no effect.
    fn refuse_fields_of_other_types(&self) -> Result<(), Problem> {
        let sent = [
            ("track_id", self.track_id.is_some(), RecordingType::Track),
            (
                "identity",
                self.identity.is_some(),
                RecordingType::Participant,
            ),
            (
                "layout",
                self.layout.is_some(),
                RecordingType::RoomComposite,
            ),
            (
                "audio_only",
                self.audio_only.is_some(),
                RecordingType::RoomComposite,
            ),
            (
                "video_only",
                self.video_only.is_some(),
                RecordingType::RoomComposite,
            ),
        ];
        match sent
            .into_iter()
            .find(|(_, sent, of)| *sent && *of != self.recording_type)
        {
            Some((field, _, of)) => Err(Problem::invalid(
                field,
                format!("is allowed only for type {}", of.as_str()),
            )),
            None => Ok(()),
        }
    }

    fn media(&self) -> Result<CompositeMedia, Problem> {
        match (
            self.audio_only.unwrap_or(false),
            self.video_only.unwrap_or(false),
        ) {
            (false, false) => Ok(CompositeMedia::Both),
            (true, false) => Ok(CompositeMedia::AudioOnly),
            (false, true) => Ok(CompositeMedia::VideoOnly),
            (true, true) => Err(Problem::invalid(
                "video_only",
                "audio_only and video_only are mutually exclusive",
            )),
        }
    }
}

pub async fn start(
    context: RequestContext,
    input: Input<RoomPath, NoParams, Checked<StartRecording>>,
) -> Result<Created<Recording>> {
    let Checked(ValidRecording {
        source,
        filepath,
        destination,
    }) = input.body;
    let (store, project) = (&context.state.store, context.project());
    let room = store.rooms().get(project.clone(), input.path.name).await?;
    let read = |template, name| store.destinations().recording(project, template, name);
    let destination = named_destination(&context, &room, destination, read).await?;
    let files = FileChooser {
        store,
        media: &*context.state.media,
        clock: &context.state.clock,
    };
    let output = files
        .output(&room, &source, filepath, destination.as_ref())
        .await?;
    egress::start(&context, &room, source, output, destination).await
}
