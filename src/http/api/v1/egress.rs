//! Common parts of recordings and broadcasts: wire types, filters, and handlers, which are generic over the two.

use conclave_db::{EgressFilter, StoreError};
use conclave_model::egress::{
    Egress, EgressDetail, EgressKind, EgressOutput, EgressPlan, EgressSource, EgressStatus,
    UsedDestination,
};
use conclave_model::page::{Page, PageRequest};
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{
    DestinationId, DestinationName, EgressId, EgressRowId, ErrorCode, NamespacedRoom, Problem,
    ProjectId, RoomName, TemplateId, Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::http::api::context::{Caller, RequestContext};
use crate::http::api::error::{ApiError, Result};
use crate::http::api::input::parameters::RoomPath;
use crate::http::api::input::{Input, NoBody, NoParams, Paged};
use crate::http::api::operation::CheckResult;
use crate::http::api::response::{Created, Json, Listed};

/// Recording or broadcast path.
#[derive(Debug, Clone, Deserialize, IntoParams)]
pub struct EgressPath {
    /// The egress id
    #[param(inline)]
    pub egress_id: EgressId,
}

/// Filters for a project's recordings or broadcasts.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct EgressQuery {
    /// Only for this room
    #[param(inline)]
    room: Option<RoomName>,
    /// Only with this status
    #[param(inline)]
    status: Option<EgressStatus>,
    /// Started at or after this instant
    #[param(inline)]
    after: Option<Timestamp>,
    /// Started at or before this instant
    #[param(inline)]
    before: Option<Timestamp>,
}

impl From<EgressQuery> for EgressFilter {
    fn from(query: EgressQuery) -> Self {
        // Destructured, so that a new filter cannot be forgotten here.
        let EgressQuery {
            room,
            status,
            after,
            before,
        } = query;
        Self {
            room,
            status,
            after,
            before,
        }
    }
}

/// The first fields of a recording or a broadcast, which identify it.
#[derive(Serialize, ToSchema)]
pub struct EgressHead {
    pub id: EgressRowId,
    pub project_id: ProjectId,
    pub room: RoomName,
    pub namespaced_room: NamespacedRoom,
    /// Id for later calls.
    pub egress_id: EgressId,
}

/// The last fields of a recording or a broadcast: destination and times.
#[derive(Serialize, ToSchema)]
pub struct EgressTail {
    /// Destination that was used, if one was named.
    // Absent rather than null (contract).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub destination: Option<DestinationName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub destination_id: Option<DestinationId>,
    pub started_at: Timestamp,
    /// Absent until the status is final.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ended_at: Option<Timestamp>,
    /// Set when the status is `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    pub created_at: Timestamp,
}

/// Wire type of a recording or a broadcast.
pub trait EgressJson: TryFrom<Egress, Error = ApiError> + Listed {
    /// Egress kind.
    const KIND: EgressKind;
}

impl EgressHead {
    /// Splits an egress into its first fields, the fields of its kind, its status, and its last fields.
    pub fn split(egress: Egress) -> (Self, EgressDetail, EgressStatus, EgressTail) {
        let head = Self {
            id: egress.id,
            // Before its fields are moved below.
            namespaced_room: egress.namespaced_room(),
            project_id: egress.project_id,
            room: egress.room,
            egress_id: egress.egress_id,
        };
        let (destination, destination_id) =
            egress.destination.map(|used| (used.name, used.id)).unzip();
        let tail = EgressTail {
            destination,
            destination_id,
            started_at: egress.started_at,
            ended_at: egress.ended_at,
            error: egress.error,
            created_at: egress.created_at,
        };
        (head, egress.detail, egress.status, tail)
    }
}

/// Reads the destination `name` of the room's template with `read`. The checks run in the order of the contract: a missing destination
/// (404), an ended room, a feature that the plan lacks, and last a destination that cannot be decrypted.
///
/// # Errors
/// 404 `template_not_found`, `destination_not_found`, 409 `room_ended`, 402 `feature_not_in_plan`, 503 `destination_unusable`.
pub async fn named_destination<T, F>(
    context: &RequestContext,
    room: &Room,
    name: Option<DestinationName>,
    read: impl FnOnce(TemplateId, DestinationName) -> F,
) -> Result<Option<T>>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let found = match (name, room.template_id.clone()) {
        (None, _) => Ok(None),
        (Some(name), Some(template)) => {
            read(template, name).await.map(Some).map_err(ApiError::from)
        }
        (Some(_), None) => {
            let message = "the room has no template, so it has no destinations";
            Err(Problem::new(ErrorCode::TemplateNotFound, message)
                .at("destination")
                .into())
        }
    };
    // Only a 404 goes before the room's state; any other error of the read, such as 503, waits for the checks below.
    if found.as_ref().is_err_and(|error| error.status() == 404) {
        return found;
    }
    if room.status == RoomStatus::Ended {
        return Err(Problem::room_ended().into());
    }
    context.require_feature().await?;
    found
}

/// Starts a room's egress.
///
/// # Errors
/// 409 if the room has ended meanwhile, 503 `media_unavailable`.
pub async fn start<J: EgressJson>(
    context: &RequestContext,
    room: &Room,
    source: EgressSource,
    output: EgressOutput,
    destination: Option<UsedDestination>,
) -> Result<Created<J>> {
    let plan = plan(context, room, source, output, destination).await?;
    context
        .recorded(|recorder| context.state.tree.start_egress(plan, recorder))
        .await
}

/// Returns the plan of a room's egress.
///
/// # Errors
/// The store's errors.
pub async fn plan(
    context: &RequestContext,
    room: &Room,
    source: EgressSource,
    output: EgressOutput,
    destination: Option<UsedDestination>,
) -> Result<EgressPlan> {
    // The media plane opens the room with this cap, if no participant has joined yet.
    let max_participants = context.plan().await?.effective_cap(room.max_participants);
    let (room_id, room) = (room.id, room.namespaced_name());
    Ok(EgressPlan {
        room_id,
        room,
        max_participants,
        source,
        output,
        destination,
        is_automatic: false,
    })
}

/// Reads an egress. For a participant, another room's egress is a 404, not a 403.
pub async fn find<J: EgressJson>(context: &RequestContext, id: EgressId) -> Result<Egress> {
    let egress = context
        .state
        .store
        .egresses()
        .get(context.project(), J::KIND, id)
        .await?;
    match &context.caller {
        Caller::RoomToken(claims) if claims.room != egress.namespaced_room() => {
            Err(J::KIND.not_found().into())
        }
        _ => Ok(egress),
    }
}

/// Returns an egress with its status on the media plane.
pub async fn get<J: EgressJson>(
    context: RequestContext,
    input: Input<EgressPath, NoParams, NoBody>,
) -> Result<Json<J>> {
    let egress = find::<J>(&context, input.path.egress_id).await?;
    let egress = match egress.status.is_final() {
        // A final status never changes, so the media plane is not queried.
        true => egress,
        false => {
            context
                .state
                .tree
                .refresh_egress(egress.project_id, egress.egress_id)
                .await?
        }
    };
    egress.try_into().map(Json)
}

/// Refuses a participant the stored response to a change of another room's egress.
pub fn check_replay<'a, J: EgressJson>(
    context: &'a RequestContext,
    input: &'a Input<EgressPath, NoParams, NoBody>,
) -> CheckResult<'a> {
    Box::pin(async move {
        find::<J>(context, input.path.egress_id.clone())
            .await
            .map(drop)
    })
}

/// Stops an egress. A final one is returned as it is.
pub async fn stop<J: EgressJson>(
    context: RequestContext,
    input: Input<EgressPath, NoParams, NoBody>,
) -> Result<Json<J>> {
    let egress = find::<J>(&context, input.path.egress_id).await?;
    if egress.status.is_final() {
        return egress.try_into().map(Json);
    }
    // The response to a repeated key is stored with the change, so a retry does not stop a second time.
    let stop = |recorder| {
        context
            .state
            .tree
            .stop_egress(egress.project_id, egress.egress_id, recorder)
    };
    context.recorded(stop).await
}

/// Returns a page of the project's recordings or broadcasts.
pub async fn list<J: EgressJson>(
    context: RequestContext,
    input: Input<NoParams, Paged<EgressQuery>, NoBody>,
) -> Result<Page<J>> {
    let Paged { page, filter } = input.query;
    read(&context, filter.into(), page).await
}

/// Returns a page of a room's recordings or broadcasts.
pub async fn list_in_room<J: EgressJson>(
    context: RequestContext,
    input: Input<RoomPath, Paged<NoParams>, NoBody>,
) -> Result<Page<J>> {
    // For an unknown room, a 404 rather than an empty list (contract).
    let room = context
        .state
        .store
        .rooms()
        .get(context.project(), input.path.name)
        .await?;
    let filter = EgressFilter {
        room: Some(room.name),
        ..EgressFilter::default()
    };
    read(&context, filter, input.query.page).await
}

async fn read<J: EgressJson>(
    context: &RequestContext,
    filter: EgressFilter,
    page: PageRequest,
) -> Result<Page<J>> {
    context
        .state
        .store
        .egresses()
        .list(context.project(), J::KIND, filter, page)
        .await?
        .try_map(J::try_from)
}
