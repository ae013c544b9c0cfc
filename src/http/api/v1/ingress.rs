//! Ingress endpoints: an encoder publishes to one, and joins a room as an ordinary participant.

use conclave_actors::project::CreateIngressRequest;
use conclave_db::IngressFilter;
use conclave_media::IngressRequest;
use conclave_model::ingress::{Ingress, IngressStatus, InputType};
use conclave_model::non_null::non_null;
use conclave_model::page::Page;
use conclave_model::plan::Feature;
use conclave_model::room::RoomStatus;
use conclave_model::text::Text;
use conclave_model::{
    ErrorCode, Identity, IngressId, IngressRowId, NamespacedRoom, Problem, ProjectId, RoomName,
    Secret, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::parameters::RoomPath;
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::{Created, Json, Listed, NoContent, revealed};
use crate::http::api::spec::Method;

/// Ingress endpoint path.
#[derive(Deserialize, IntoParams)]
pub struct IngressPath {
    /// The endpoint's id
    #[param(inline)]
    ingress_id: IngressId,
}

/// Filters for a project's ingress endpoints.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct IngressQuery {
    /// Only for this room
    #[param(inline)]
    room: Option<RoomName>,
    /// Only with this status
    #[param(inline)]
    status: Option<IngressStatus>,
    /// Only with this type
    #[param(inline)]
    input_type: Option<InputType>,
}

impl From<IngressQuery> for IngressFilter {
    fn from(query: IngressQuery) -> Self {
        // Destructured, so that a new filter cannot be forgotten here.
        let IngressQuery {
            room,
            status,
            input_type,
        } = query;
        Self {
            room,
            status,
            input_type,
        }
    }
}

/// An ingress endpoint to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateIngress {
    /// Protocol that the encoder publishes with.
    input_type: InputType,
    /// Identity with which the encoder joins.
    participant_identity: Identity,
    /// Display name with which the encoder joins.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    // `Text` rather than `DisplayName`, since the backend vouches for it.
    participant_name: Option<Text>,
    /// Null or omitted: the media plane's default for the input type.
    // Null is allowed (contract).
    enable_transcoding: Option<bool>,
}

/// An ingress endpoint.
#[derive(Serialize, ToSchema)]
#[schema(as = Ingress)]
pub struct IngressJson {
    pub id: IngressRowId,
    pub project_id: ProjectId,
    /// The room it publishes into.
    pub room: RoomName,
    pub namespaced_room: NamespacedRoom,
    /// Id for later calls.
    pub ingress_id: IngressId,
    pub input_type: InputType,
    /// Identity with which the encoder joins.
    pub participant_identity: Identity,
    /// Absent when none was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub participant_name: Option<String>,
    /// URL that the encoder publishes to, its stream key replaced by `REDACTED`.
    pub url: String,
    pub status: IngressStatus,
    /// Description of the failure; present while `status` is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Absent until deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deleted_at: Option<Timestamp>,
}

/// A created ingress endpoint with its stream key.
#[derive(Serialize, ToSchema)]
pub struct IngressCreated {
    #[serde(flatten)]
    pub ingress: IngressJson,
    /// Shown only in this response.
    #[serde(serialize_with = "revealed")]
    #[schema(value_type = String)]
    pub stream_key: Secret,
}

impl From<Ingress> for IngressJson {
    fn from(ingress: Ingress) -> Self {
        Self {
            id: ingress.id,
            namespaced_room: ingress.namespaced_room(),
            project_id: ingress.project_id,
            room: ingress.room,
            ingress_id: ingress.ingress_id,
            input_type: ingress.input_type,
            participant_identity: ingress.participant_identity,
            participant_name: ingress.participant_name,
            url: ingress.url,
            status: ingress.status,
            error: ingress.error,
            created_at: ingress.created_at,
            updated_at: ingress.updated_at,
            deleted_at: ingress.deleted_at,
        }
    }
}

impl Listed for IngressJson {
    const COLLECTION: &'static str = "ingresses";
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

/// Returns the operations on ingress endpoints.
pub fn operations() -> Vec<Box<dyn Operation>> {
    vec![
        operation(Method::Post, "/v1/rooms/{name}/ingress", "create_ingress", create)
            .about("ingress", "Create an endpoint for an encoder; its stream key is shown only in this response")
            .example(json!({
                "input_type": "rtmp", "participant_identity": "encoder", "participant_name": "Stage camera"
            }))
            .responds(created_example())
            .links(&["get_ingress", "delete_ingress"], &[("ingress_id", "$response.body#/ingress_id")])
            // Without `idempotent` (contract).
            .starts_work()
            .feature(Feature::Streaming)
            .errors(&[
                ErrorCode::RoomNotFound,
                ErrorCode::RoomEnded,
                ErrorCode::IngressExists,
                ErrorCode::MediaUnavailable,
                ErrorCode::BillingUnavailable,
            ])
            .build(),
        operation(Method::Get, "/v1/ingress", "list_ingresses", list)
            .about("ingress", "List endpoints, newest first, including deleted ones")
            .responds(example())
            .build(),
        operation(Method::Get, "/v1/ingress/{ingress_id}", "get_ingress", get)
            .about("ingress", "Read an endpoint, with its current status from the media plane")
            .responds(example())
            .errors(&[ErrorCode::IngressNotFound, ErrorCode::MediaUnavailable])
            .build(),
        operation(Method::Delete, "/v1/ingress/{ingress_id}", "delete_ingress", delete)
            .about("ingress", "Delete an endpoint; its stream key is invalid at once")
            .errors(&[ErrorCode::IngressNotFound, ErrorCode::MediaUnavailable])
            .build(),
    ]
}

pub async fn create(
    context: RequestContext,
    input: Input<RoomPath, NoParams, CreateIngress>,
) -> Result<Created<IngressCreated>> {
    let body = input.body;
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    if room.status == RoomStatus::Ended {
        return Err(Problem::room_ended().into());
    }
    // After the room's 404 and 409, in the contract's order of checks.
    context.require_feature().await?;
    let ingress = IngressRequest {
        room: room.namespaced_name(),
        max_participants: context.plan().await?.effective_cap(room.max_participants),
        input_type: body.input_type,
        identity: body.participant_identity,
        name: body.participant_name.map(String::from),
        enable_transcoding: body.enable_transcoding,
        // Encoders connect to the host of this URL.
        public_url: context.derived_media_url(),
    };
    let request = CreateIngressRequest {
        room: room.id,
        ingress,
    };
    // Not `recorded`: without an `Idempotency-Key`, there is no response to store.
    let created = context
        .state
        .tree
        .create_ingress(context.project(), request)
        .await?;
    Ok(Json(IngressCreated {
        ingress: created.ingress.into(),
        stream_key: created.stream_key,
    }))
}

pub async fn list(
    context: RequestContext,
    input: Input<NoParams, Paged<IngressQuery>, NoBody>,
) -> Result<Page<IngressJson>> {
    let Paged { page, filter } = input.query;
    let ingresses = context
        .state
        .store
        .ingresses()
        .list(context.project(), filter.into(), page)
        .await?;
    Ok(ingresses.map(IngressJson::from))
}

async fn get(
    context: RequestContext,
    input: Input<IngressPath, NoParams, NoBody>,
) -> Result<Json<IngressJson>> {
    let ingress = context
        .state
        .store
        .ingresses()
        .get(context.project(), input.path.ingress_id)
        .await?;
    // A deleted endpoint no longer exists at the media plane.
    let ingress = match ingress.status.is_final() {
        true => ingress,
        false => {
            context
                .state
                .tree
                .refresh_ingress(context.project(), ingress.ingress_id)
                .await?
        }
    };
    Ok(Json(ingress.into()))
}

pub async fn delete(
    context: RequestContext,
    input: Input<IngressPath, NoParams, NoBody>,
) -> Result<NoContent> {
    let ingress = context
        .state
        .store
        .ingresses()
        .get(context.project(), input.path.ingress_id)
        .await?;
    // A repeated request succeeds without a call to the media plane.
    if ingress.status != IngressStatus::Deleted {
        context
            .state
            .tree
            .delete_ingress(context.project(), ingress.ingress_id)
            .await?;
    }
    Ok(NoContent)
}
