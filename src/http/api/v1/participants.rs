//! Live participants, as the media plane reports them.

use conclave_model::page::Page;
use conclave_model::participant::Participant;
use conclave_model::room::RoomStatus;
use conclave_model::{ErrorCode, Problem};
use serde_json::json;

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::path::{ParticipantPath, RoomPath};
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Json, Listed};
use crate::http::api::spec::Method;

/// An example of a participant, for the description.
pub(super) fn example() -> serde_json::Value {
    json!({
        "sid": "PA_8fK2mQ0aLx7c", "identity": "alice", "name": "Alice", "state": "active", "kind": "standard",
        "metadata": "", "attributes": {"svc.role": "host"}, "is_publisher": true,
        "joined_at": "2026-01-31T12:00:05.120Z",
        "tracks": [{"sid": "TR_3cD9xY1kQmZb", "kind": "audio", "source": "microphone", "muted": false}]
    })
}

impl Listed for Participant {
    const COLLECTION: &'static str = "participants";
}

/// The operations that read live participants.
pub fn operations() -> Vec<Operation> {
    vec![
        operation(
            Method::Get,
            "/v1/rooms/{name}/participants",
            "list_participants",
            list,
        )
        .about("participants", "List who is in a room")
        .responds(example())
        .links(
            &[
                "get_participant",
                "remove_participant",
                "mute_track",
                "change_role",
            ],
            &[
                ("name", "$request.path.name"),
                ("identity", "$response.body#/participants/0/identity"),
            ],
        )
        .errors(&[ErrorCode::RoomNotFound, ErrorCode::MediaUnavailable])
        .build(),
        operation(
            Method::Get,
            "/v1/rooms/{name}/participants/{identity}",
            "get_participant",
            get,
        )
        .about("participants", "Read one participant")
        .responds(example())
        .errors(&[
            ErrorCode::RoomNotFound,
            ErrorCode::ParticipantNotFound,
            ErrorCode::MediaUnavailable,
        ])
        .build(),
    ]
}

pub async fn list(
    context: RequestContext,
    input: Input<RoomPath, Paged<NoParams>, NoBody>,
) -> Result<Page<Participant>> {
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    let mut participants = match room.status {
        RoomStatus::Open => {
            context
                .state
                .media
                .participants(&room.namespaced_name())
                .await?
        }
        RoomStatus::Ended => Vec::new(),
    };
    // The media plane promises no order, and pages need a total one.
    participants.sort_by(|a, b| (a.joined_at, &a.sid).cmp(&(b.joined_at, &b.sid)));
    Ok(Page::from_all(participants, input.query.page))
}

async fn get(
    context: RequestContext,
    input: Input<ParticipantPath, NoParams, NoBody>,
) -> Result<Json<Participant>> {
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    let found = match room.status {
        RoomStatus::Open => {
            context
                .state
                .media
                .participant(&room.namespaced_name(), &input.path.identity)
                .await?
        }
        RoomStatus::Ended => None,
    };
    Ok(Json(found.ok_or_else(Problem::participant_not_found)?))
}
