//! What recordings and broadcasts share: wire types, filters, starting, reading, stopping.

use conclave_db::{EgressFilter, StoreError};
use conclave_model::egress::{
    Egress, EgressKind, EgressOutput, EgressPlan, EgressSource, EgressStatus, UsedDestination,
};
use conclave_model::page::Page;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{
    DestinationId, DestinationName, EgressId, EgressRowId, ErrorCode, NamespacedRoom, Problem, ProjectId, RoomName,
    TemplateId, Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::http::context::{Caller, RequestContext};
use crate::http::error::ApiError;
use crate::http::input::path::RoomPath;
use crate::http::input::{Input, NoBody, NoParams, Paged};
use crate::http::operation::CheckResult;
use crate::http::response::Response;

/// The path of a recording or a broadcast.
#[derive(Debug, Clone, Deserialize, IntoParams)]
pub struct EgressPath {
    /// The egress id
    #[param(inline)]
    pub egress_id: EgressId,
}

/// The filters of a project's recordings or broadcasts.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct EgressQuery {
    /// Of this room
    #[param(inline)]
    room: Option<RoomName>,
    /// In this status
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
        let EgressQuery { room, status, after, before } = query;
        Self { room, status, after, before }
    }
}

/// The first fields of a recording or a broadcast: what it is of.
#[derive(Serialize, ToSchema)]
pub struct EgressHead<'a> {
    id: EgressRowId,
    project_id: &'a ProjectId,
    room: &'a RoomName,
    namespaced_room: NamespacedRoom,
    /// The handle for every later call.
    egress_id: &'a EgressId,
}

/// The last fields of a recording or a broadcast: where it went, and when.
#[derive(Serialize, ToSchema)]
pub struct EgressTail<'a> {
    /// The destination used, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    destination: Option<&'a DestinationName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    destination_id: Option<&'a DestinationId>,
    started_at: Timestamp,
    /// Absent until it is final.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    ended_at: Option<Timestamp>,
    /// Set when the status is `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<&'a str>,
    created_at: Timestamp,
}

impl<'a> From<&'a Egress> for EgressHead<'a> {
    fn from(egress: &'a Egress) -> Self {
        Self {
            id: egress.id,
            project_id: &egress.project_id,
            room: &egress.room,
            namespaced_room: egress.namespaced_room(),
            egress_id: &egress.egress_id,
        }
    }
}

impl<'a> From<&'a Egress> for EgressTail<'a> {
    fn from(egress: &'a Egress) -> Self {
        Self {
            destination: egress.destination.as_ref().map(|used| &used.name),
            destination_id: egress.destination.as_ref().map(|used| &used.id),
            started_at: egress.started_at,
            ended_at: egress.ended_at,
            error: egress.error.as_deref(),
            created_at: egress.created_at,
        }
    }
}

/// The destination by that name on the room's template, as `read` reads it, once the room is known to be open and the plan to include
/// the feature. A destination that does not exist is refused first, one that cannot be decrypted last.
///
/// # Errors
/// 404 `template_not_found`, `destination_not_found`, 409 `room_ended`, 402 `feature_not_in_plan`, 503 `destination_unusable`.
pub async fn named_destination<T, F>(
    context: &RequestContext,
    room: &Room,
    name: Option<DestinationName>,
    read: impl FnOnce(TemplateId, DestinationName) -> F,
) -> Result<Option<T>, ApiError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let found = match (name, room.template_id.clone()) {
        (None, _) => Ok(None),
        (Some(name), Some(template)) => read(template, name).await.map(Some).map_err(ApiError::from),
        (Some(_), None) => {
            let message = "the room resolves to no template, so it has no destinations";
            Err(Problem::new(ErrorCode::TemplateNotFound, message).at("destination").into())
        }
    };
    if found.as_ref().is_err_and(|error| error.status() == 404) {
        return found;
    }
    if room.status == RoomStatus::Ended {
        return Err(Problem::room_ended().into());
    }
    context.require_feature().await?;
    found
}

/// A kind of egress as a resource of the API.
pub struct Resource {
    /// Recordings or broadcasts.
    pub kind: EgressKind,
}

impl Resource {
    /// Starts an egress of a room.
    ///
    /// # Errors
    /// 409 when the room has ended meanwhile, 503 `media_unavailable`.
    pub async fn start(
        &self,
        context: &RequestContext,
        room: &Room,
        source: EgressSource,
        output: EgressOutput,
        destination: Option<UsedDestination>,
        render: fn(&Egress) -> Response,
    ) -> Result<Response, ApiError> {
        let max_participants = context.plan().await?.effective_cap(room.max_participants);
        let (room_id, room) = (room.id, room.namespaced_name());
        let plan = EgressPlan { room_id, room, max_participants, source, output, destination };
        let egress = context.state.tree.start_egress(plan, context.recorder(render)).await?;
        Ok(render(&egress))
    }

    /// The record of an egress. A participant finds those of its own room.
    async fn find(&self, context: &RequestContext, id: EgressId) -> Result<Egress, ApiError> {
        let egress = context.state.store.egress(context.project(), self.kind, id).await?;
        match &context.caller {
            Caller::RoomToken(claims) if claims.room != egress.namespaced_room() => Err(self.kind.not_found().into()),
            _ => Ok(egress),
        }
    }

    /// An egress with its status on the media plane.
    ///
    /// # Errors
    /// 404, 503 `media_unavailable`.
    pub async fn get(&self, context: &RequestContext, id: EgressId) -> Result<Egress, ApiError> {
        let egress = self.find(context, id).await?;
        if egress.status.is_final() {
            return Ok(egress);
        }
        Ok(context.state.tree.refresh_egress(egress.project_id, egress.egress_id).await?)
    }

    /// Refuses a participant the stored response to stopping an egress of another room.
    pub fn check_stop_replay<'a>(
        &'a self,
        context: &'a RequestContext,
        input: &'a Input<EgressPath, NoParams, NoBody>,
    ) -> CheckResult<'a> {
        Box::pin(async move { self.find(context, input.path.egress_id.clone()).await.map(drop) })
    }

    /// Asks an egress to finish. One that is final is rendered as it is.
    ///
    /// # Errors
    /// 404, 503 `media_unavailable`.
    pub async fn stop(
        &self,
        context: &RequestContext,
        id: EgressId,
        render: fn(&Egress) -> Response,
    ) -> Result<Response, ApiError> {
        let egress = self.find(context, id).await?;
        if egress.status.is_final() {
            return Ok(render(&egress));
        }
        let recorder = context.recorder(render);
        let stopped = context.state.tree.stop_egress(egress.project_id, egress.egress_id, recorder).await?;
        Ok(render(&stopped))
    }

    /// A page of the project's recordings or broadcasts.
    ///
    /// # Errors
    /// The store's own.
    pub async fn list(&self, context: &RequestContext, query: Paged<EgressQuery>) -> Result<Page<Egress>, ApiError> {
        let Paged { page, filter } = query;
        Ok(context.state.store.egresses(context.project(), self.kind, filter.into(), page).await?)
    }

    /// A page of the recordings or broadcasts of a room.
    ///
    /// # Errors
    /// 404 `room_not_found`.
    pub async fn list_of_room(
        &self,
        context: &RequestContext,
        input: Input<RoomPath, Paged<NoParams>, NoBody>,
    ) -> Result<Page<Egress>, ApiError> {
        let room = context.state.store.room(context.project(), input.path.name).await?;
        let filter = EgressFilter { room: Some(room.name), ..EgressFilter::default() };
        Ok(context.state.store.egresses(context.project(), self.kind, filter, input.query.page).await?)
    }
}
