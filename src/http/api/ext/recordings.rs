//! Recordings: pausing and resuming one, and starting the recordings of all of a room's participants by one call.

use conclave_actors::TreeError;
use conclave_actors::recording::FileChooser;
use conclave_model::egress::{Egress, EgressKind, EgressSource, UsedDestination};
use conclave_model::non_null::non_null;
use conclave_model::participant::Participant;
use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use conclave_model::room::Room;
use conclave_model::{DestinationName, ErrorCode, Identity};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::http::api::context::RequestContext;
use crate::http::api::error::{ApiError, Result};
use crate::http::api::input::parameters::RoomPath;
use crate::http::api::input::{Input, NoBody, NoParams, OptionalBody};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Created, Json};
use crate::http::api::spec::Method;
use crate::http::api::v1::egress::{self, EgressPath, named_destination};
use crate::http::api::v1::recordings::{Recording, example};

/// Recordings to start.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordParticipants {
    /// A recording destination of the room's template. Without one, the files are written to the project's local directory.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    destination: Option<DestinationName>,
}

/// A participant's recording.
#[derive(Serialize, ToSchema)]
pub struct ParticipantRecording {
    /// The recorded participant.
    pub identity: Identity,
    #[serde(flatten)]
    pub recording: Recording,
}

/// A participant whose recording was not started.
#[derive(Serialize, ToSchema)]
pub struct UnrecordedParticipant {
    pub identity: Identity,
    /// The code of the error that a request for this recording alone would get.
    // Not `code`, which is the secret of a room code elsewhere.
    #[schema(value_type = String)]
    pub reason: ErrorCode,
    /// The reason in words.
    pub message: String,
}

/// Recordings of a room's participants.
#[derive(Serialize, ToSchema)]
pub struct ParticipantRecordings {
    /// One recording per participant, by the time of the join. A participant that was being recorded keeps its recording.
    pub recordings: Vec<ParticipantRecording>,
    /// Participants whose recording was not started; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<UnrecordedParticipant>,
}

fn paused_example(paused: bool) -> serde_json::Value {
    let mut recording = example();
    recording["status"] = json!("active");
    recording["paused"] = json!(paused);
    recording
}

fn participants_example() -> serde_json::Value {
    let mut recording = example();
    recording["type"] = json!("participant");
    recording["identity"] = json!("alice");
    json!({"recordings": [recording]})
}

/// Returns the operations on recordings.
pub fn operations() -> Vec<Box<dyn Operation>> {
    let errors = &[
        ErrorCode::RecordingNotFound,
        ErrorCode::RecordingEnded,
        ErrorCode::MediaUnavailable,
    ];
    vec![
        operation(
            Method::Post,
            "/ext/v1/recordings/{egress_id}/pause",
            "pause_recording",
            pause,
        )
        .about(
            "recordings",
            "Pause a recording; its file continues without the pause",
        )
        .responds(paused_example(true))
        .room_token(&[Permission::Record])
        .replay_check(egress::check_replay::<Recording>)
        .idempotent()
        .errors(errors)
        .build(),
        operation(
            Method::Post,
            "/ext/v1/recordings/{egress_id}/resume",
            "resume_recording",
            resume,
        )
        .about("recordings", "Resume a paused recording")
        .responds(paused_example(false))
        .room_token(&[Permission::Record])
        .replay_check(egress::check_replay::<Recording>)
        .idempotent()
        .errors(errors)
        .build(),
        operation(
            Method::Post,
            "/ext/v1/rooms/{name}/recordings/participants",
            "record_participants",
            record_participants,
        )
        .about(
            "recordings",
            "Start a recording of each participant in the room, unless it is being recorded",
        )
        .example(json!({"destination": "archive"}))
        .responds(participants_example())
        .room_token(&[Permission::Record])
        .idempotent()
        .starts_work()
        .feature(Feature::Recording)
        .errors(&[
            ErrorCode::RoomNotFound,
            ErrorCode::TemplateNotFound,
            ErrorCode::DestinationNotFound,
            ErrorCode::RoomEnded,
            ErrorCode::MediaUnavailable,
            ErrorCode::DestinationUnusable,
            ErrorCode::BillingUnavailable,
        ])
        .build(),
    ]
}

pub async fn pause(
    context: RequestContext,
    input: Input<EgressPath, NoParams, NoBody>,
) -> Result<Json<Recording>> {
    set_paused(context, input.path, true).await
}

pub async fn resume(
    context: RequestContext,
    input: Input<EgressPath, NoParams, NoBody>,
) -> Result<Json<Recording>> {
    set_paused(context, input.path, false).await
}

async fn set_paused(
    context: RequestContext,
    path: EgressPath,
    paused: bool,
) -> Result<Json<Recording>> {
    let egress = egress::find::<Recording>(&context, path.egress_id).await?;
    if !egress.is_running() {
        return Err(EgressKind::recording_ended().into());
    }
    let set = |recorder| {
        context.state.tree.set_recording_paused(
            egress.project_id,
            egress.egress_id,
            paused,
            recorder,
        )
    };
    context.recorded(set).await
}

pub async fn record_participants(
    context: RequestContext,
    input: Input<RoomPath, NoParams, OptionalBody<RecordParticipants>>,
) -> Result<Created<ParticipantRecordings>> {
    let store = &context.state.store;
    let (project, name) = (context.project(), input.path.name);
    let room = store.rooms().get(project.clone(), name).await?;
    let OptionalBody(RecordParticipants { destination }) = input.body;
    let read = |template, name| store.destinations().recording(project, template, name);
    // Refuses the whole call for the same reasons as a single recording.
    let destination = named_destination(&context, &room, destination, read).await?;
    let mut result = ParticipantRecordings {
        recordings: Vec::new(),
        refused: Vec::new(),
    };
    // One after another: the media plane prepares one file at a time, and a full server refuses the rest.
    for participant in recordable(&context, &room).await? {
        let identity = participant.identity;
        match start(&context, &room, &identity, destination.clone()).await {
            Ok(recording) => result.recordings.push(ParticipantRecording {
                identity,
                recording,
            }),
            // Not about this recording: the others would fail, too. A repeated call also returns the started ones.
            Err(error) if concerns_all(&error) => return Err(error),
            Err(error) => result.refused.push(UnrecordedParticipant {
                identity,
                reason: error.problem.code,
                message: error.problem.message.to_string(),
            }),
        }
    }
    Ok(Json(result))
}

/// Returns whether an error is a failure of the server. A media plane may refuse one recording, for example because too many run.
fn concerns_all(error: &ApiError) -> bool {
    error.status() >= 500 && error.problem.code != ErrorCode::MediaUnavailable
}

/// Returns the participants that can be recorded, by the time of their join: neither recorders nor agents, and no hidden ones.
async fn recordable(context: &RequestContext, room: &Room) -> Result<Vec<Participant>> {
    let (store, project) = (&context.state.store, context.project());
    let roles = store
        .rooms()
        .roles(project, room.template_id.clone())
        .await?;
    let name = room.namespaced_name();
    let mut present = context.state.media.participants(&name).await?;
    present.retain(|participant| {
        let role = participant.role();
        let is_hidden = role.is_some_and(|role| roles.get(&role).is_some_and(|role| role.hidden));
        participant.kind.keeps_room() && !is_hidden
    });
    present.sort_by(|a, b| (a.joined_at, &a.sid).cmp(&(b.joined_at, &b.sid)));
    Ok(present)
}

/// Returns a participant's running recording; `None` also while one is ending, which contains nothing new.
async fn running(
    context: &RequestContext,
    room: &Room,
    identity: &Identity,
) -> Result<Option<Egress>> {
    let running = context
        .state
        .store
        .egresses()
        .running_in(room.project_id.clone(), room.name.clone())
        .await?;
    Ok(running
        .into_iter()
        .find(|egress| egress.is_running() && egress.identity.as_ref() == Some(identity)))
}

/// Starts a participant's recording, or returns the running one.
async fn start(
    context: &RequestContext,
    room: &Room,
    identity: &Identity,
    destination: Option<UsedDestination>,
) -> Result<Recording> {
    let state = &context.state;
    // Read for each start: another request, or the room itself, may have started one meanwhile.
    if let Some(running) = running(context, room, identity).await? {
        return running.try_into();
    }
    let files = FileChooser {
        store: &state.store,
        media: &*state.media,
        clock: &state.clock,
    };
    let source = EgressSource::Participant(identity.clone());
    let output = files
        .automatic_output(room, &source, destination.as_ref())
        .await?;
    let mut plan = egress::plan(context, room, source, output, destination).await?;
    // Checked again where it is written, so that only one of two simultaneous starts goes on.
    plan.is_automatic = true;
    let refused = match state.tree.start_egress(plan, None).await {
        Ok(started) => return started.try_into(),
        Err(error) => error,
    };
    let is_known = matches!(&refused, TreeError::Refused(problem) if problem.code == ErrorCode::RecordingExists);
    if is_known && let Some(running) = running(context, room, identity).await? {
        return running.try_into();
    }
    Err(ApiError::from(refused))
}
