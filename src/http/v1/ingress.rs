//! Ingress endpoints (contract "Ingress"): where an encoder publishes into a room as an ordinary participant.

use conclave_actors::project::CreateIngressRequest;
use conclave_db::IngressFilter;
use conclave_media::IngressRequest;
use conclave_model::ingress::{Ingress, IngressStatus, InputType};
use conclave_model::non_null::non_null;
use conclave_model::plan::Feature;
use conclave_model::room::RoomStatus;
use conclave_model::{ErrorCode, IngressId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::http::answer::{self, Response};
use crate::http::call::{Call, identity, room_name};
use crate::http::openapi::{Doc, Param};
use crate::http::operation::{Method, Operation};
use crate::http::problem::{Problem, of_store, of_tree};

/// An endpoint to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateIngress {
    /// How an encoder speaks to it.
    input_type: InputType,
    /// The identity that the stream joins as.
    #[schema(pattern = "^[a-zA-Z0-9_.@-]{1,128}$")]
    participant_identity: String,
    /// The display name that it joins with.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    participant_name: Option<String>,
    /// Null or left out, it is the media plane's default for the input type.
    enable_transcoding: Option<bool>,
}

/// An endpoint.
#[derive(Serialize, ToSchema)]
#[schema(as = Ingress)]
pub struct IngressJson {
    id: uuid::Uuid,
    project_id: String,
    /// The room it publishes into.
    room: String,
    namespaced_room: String,
    /// The handle for every later call.
    ingress_id: String,
    input_type: InputType,
    /// The identity that the stream joins as.
    participant_identity: String,
    /// Absent when none was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    participant_name: Option<String>,
    /// Where an encoder publishes, with `REDACTED` for the stream key.
    url: String,
    status: IngressStatus,
    /// What went wrong; present while `status` is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Absent until deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    deleted_at: Option<Timestamp>,
}

/// An endpoint that was made, with what lets an encoder in.
#[derive(Serialize, ToSchema)]
pub struct IngressCreated<'a> {
    #[serde(flatten)]
    ingress: IngressJson,
    /// Shown this once.
    stream_key: &'a str,
}

impl From<&Ingress> for IngressJson {
    fn from(ingress: &Ingress) -> Self {
        Self {
            id: ingress.id.0,
            project_id: ingress.project_id.to_string(),
            room: ingress.room.to_string(),
            namespaced_room: ingress.namespaced_room().to_string(),
            ingress_id: ingress.ingress_id.to_string(),
            input_type: ingress.input_type,
            participant_identity: ingress.participant_identity.to_string(),
            participant_name: ingress.participant_name.clone(),
            url: ingress.url.clone(),
            status: ingress.status,
            error: ingress.error.clone(),
            created_at: ingress.created_at,
            updated_at: ingress.updated_at,
            deleted_at: ingress.deleted_at,
        }
    }
}

fn example() -> serde_json::Value {
    json!({
        "id": "0191d2c4-b7f3-7d19-8a40-6f2b9e1c5d84", "project_id": "prj_5f2a9c01be34", "room": "standup",
        "namespaced_room": "prj_5f2a9c01be34.standup", "ingress_id": "IN_4hT7kQ2mZx9c", "input_type": "rtmp",
        "participant_identity": "encoder", "participant_name": "Stage camera",
        "url": "rtmp://media.example.com/live/REDACTED", "status": "inactive",
        "created_at": "2026-01-31T12:00:00.000Z", "updated_at": "2026-01-31T12:00:00.000Z"
    })
}

fn created_example() -> serde_json::Value {
    let mut example = example();
    example["stream_key"] = json!("pQ7dX2mK9sVb4TzR1wYc8HnL5gJf3EaU");
    example
}

/// Ingress endpoints.
pub const OPERATIONS: &[Operation] = &[
    Operation::new(
        "create_ingress",
        Method::Post,
        "/v1/rooms/{name}/ingress",
        &[201],
        |call| Box::pin(create(call)),
        || {
            let example =
                json!({"input_type": "rtmp", "participant_identity": "encoder", "participant_name": "Stage camera"});
            Doc::new("ingress", "Create an endpoint for an encoder; the answer shows its stream key, this once")
                .path(Param::ROOM)
                .body::<CreateIngress>(example)
                .answer::<IngressCreated<'_>>(created_example())
        },
    )
    .codes(&[
        ErrorCode::InvalidRoomName,
        ErrorCode::InvalidIdentity,
        ErrorCode::QuotaExceeded,
        ErrorCode::InsufficientBalance,
        ErrorCode::FeatureNotInPlan,
        ErrorCode::RoomNotFound,
        ErrorCode::RoomEnded,
        ErrorCode::IngressExists,
        ErrorCode::MediaUnavailable,
        ErrorCode::BillingUnavailable,
    ]),
    Operation::new(
        "list_ingresses",
        Method::Get,
        "/v1/ingress",
        &[200],
        |call| Box::pin(list(call)),
        || {
            Doc::new("ingress", "List endpoints, newest first, deleted ones too").page::<IngressJson>(
                "ingresses",
                example(),
                &[
                    Param::query("room", "Of this room"),
                    Param::one_of("status", "In this status", IngressStatus::WORDS),
                    Param::one_of("input_type", "Of this type", InputType::WORDS),
                ],
            )
        },
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::InvalidRoomName]),
    Operation::new(
        "get_ingress",
        Method::Get,
        "/v1/ingress/{ingress_id}",
        &[200],
        |call| Box::pin(get(call)),
        || {
            Doc::new("ingress", "Read an endpoint, as the media plane has it now")
                .path(Param::INGRESS)
                .answer::<IngressJson>(example())
        },
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::IngressNotFound, ErrorCode::MediaUnavailable]),
    Operation::new(
        "delete_ingress",
        Method::Delete,
        "/v1/ingress/{ingress_id}",
        &[204],
        |call| Box::pin(delete(call)),
        || Doc::new("ingress", "Delete an endpoint; its stream key is invalid at once").path(Param::INGRESS),
    )
    .codes(&[ErrorCode::InvalidRequest, ErrorCode::IngressNotFound, ErrorCode::MediaUnavailable]),
];

async fn create(call: Call) -> Result<Response, Problem> {
    let room = call.room()?;
    call.no_query()?;
    let body: CreateIngress = call.read()?;
    let identity = identity("participant_identity", &body.participant_identity)?;
    let plan = call.plan_for_new_work().await?;
    let room = call.state.store.room(call.project(), room).await.map_err(of_store)?;
    if room.status == RoomStatus::Ended {
        return Err(Problem::room_ended());
    }
    plan.features.ensure_included(Feature::Streaming)?;
    let ingress = IngressRequest {
        room: room.namespaced_name(),
        max_participants: plan.effective_cap(room.max_participants),
        input_type: body.input_type,
        identity,
        name: body.participant_name,
        enable_transcoding: body.enable_transcoding,
    };
    let wanted = CreateIngressRequest { room: room.id, ingress };
    let made = call.state.tree.create_ingress(call.project(), wanted).await.map_err(of_tree)?;
    let ingress = IngressJson::from(&made.ingress);
    Ok(answer::created(&IngressCreated { ingress, stream_key: made.stream_key.reveal() }))
}

async fn list(call: Call) -> Result<Response, Problem> {
    let mut query = call.query()?;
    let page = query.page()?;
    let filter = IngressFilter {
        room: query.text("room").map(|text| room_name("room", &text)).transpose()?,
        status: query.word("status", |word| word.parse().ok(), IngressStatus::WORDS)?,
        input_type: query.word("input_type", |word| word.parse().ok(), InputType::WORDS)?,
    };
    query.finish()?;
    let ingresses = call.state.store.ingresses(call.project(), filter, page).await.map_err(of_store)?;
    Ok(answer::page("ingresses", &ingresses.map(|ingress| IngressJson::from(&ingress))))
}

async fn get(call: Call) -> Result<Response, Problem> {
    let ingress = find(&call).await?;
    let ingress = match ingress.status.is_final() {
        true => ingress,
        false => call.state.tree.refresh_ingress(call.project(), ingress.ingress_id).await.map_err(of_tree)?,
    };
    Ok(answer::ok(&IngressJson::from(&ingress)))
}

async fn delete(call: Call) -> Result<Response, Problem> {
    let ingress = find(&call).await?;
    if ingress.status != IngressStatus::Deleted {
        call.state.tree.delete_ingress(call.project(), ingress.ingress_id).await.map_err(of_tree)?;
    }
    Ok(answer::no_content())
}

/// The endpoint that a path names, as it was last written.
async fn find(call: &Call) -> Result<Ingress, Problem> {
    let id: IngressId = call.path("ingress_id")?;
    call.no_query()?;
    call.state.store.ingress(call.project(), id).await.map_err(of_store)
}
