//! What recordings and broadcasts have in common as resources: filters, pages, finding one, refreshing and stopping it.

use conclave_actors::project::StartEgressRequest;
use conclave_db::EgressFilter;
use conclave_media::{EgressOutput, EgressRequest};
use conclave_model::destination::{DestinationConfig, DestinationKind};
use conclave_model::egress::{Egress, EgressDetail, EgressKind, EgressSource, EgressStatus, UsedDestination};
use conclave_model::page::{Page, PageRequest};
use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use conclave_model::room::{Room, RoomStatus};
use conclave_model::{DestinationName, EgressId, ErrorCode, Problem, RoomName};

use crate::http::answer::Response;
use crate::http::call::{Call, Caller, room_name};
use crate::http::openapi::Param;
use crate::http::problem::{of_store, of_tree};

/// The filters of a list of jobs, as the description tells of them.
pub const FILTERS: &[Param] = &[
    Param::query("room", "Of this room"),
    Param::one_of("status", "In this status", EgressStatus::WORDS),
    Param::formatted("after", "Started at or after this instant", "date-time"),
    Param::formatted("before", "Started at or before this instant", "date-time"),
];

/// Which jobs a kind of call is about, and what it needs.
pub struct Resource {
    /// Recordings or broadcasts.
    pub kind: EgressKind,
    /// What a participant must be permitted.
    pub permission: Permission,
    /// What the plan must include.
    pub feature: Feature,
    /// Which destinations it can name.
    pub destinations: DestinationKind,
}

impl Resource {
    /// The room that a job is to be started in, by somebody who may, in a project that may: what can be refused before a
    /// [destination](Self::destination) has been looked for.
    ///
    /// # Errors
    /// 403, 402 of the quota, 404 `room_not_found`.
    pub async fn room_to_start_in(&self, call: &Call, name: RoomName) -> Result<Room, Problem> {
        call.permit(self.permission).await?;
        call.plan_for_new_work().await?;
        call.state.store.room(call.project(), name).await.map_err(of_store)
    }

    /// The destination by that name on the room's template, once the room is known to be open and the plan has been asked
    /// for the feature. One that is not there is told first, one that cannot be opened last (decisions section 1,
    /// precedence).
    ///
    /// # Errors
    /// 404 `template_not_found`, `destination_not_found`, 409 `room_ended`, 402 `feature_not_in_plan`, 503
    /// `destination_unusable`.
    pub async fn destination(
        &self,
        call: &Call,
        room: &Room,
        name: Option<&DestinationName>,
    ) -> Result<Option<(UsedDestination, DestinationConfig)>, Problem> {
        let found = match name {
            Some(name) => Some(self.find_destination(call, room, name).await),
            None => None,
        };
        if let Some(Err(problem)) = &found
            && problem.code.status() == 404
        {
            return Err(problem.clone());
        }
        if room.status == RoomStatus::Ended {
            return Err(Problem::room_ended());
        }
        call.require_feature(self.feature).await?;
        found.transpose()
    }

    async fn find_destination(
        &self,
        call: &Call,
        room: &Room,
        name: &DestinationName,
    ) -> Result<(UsedDestination, DestinationConfig), Problem> {
        let Some(template) = room.template_id.clone() else {
            let message = "the room resolves to no template, so it has no destinations";
            return Err(Problem::new(ErrorCode::TemplateNotFound, message).at("destination"));
        };
        let found = call.state.store.usable_destination(call.project(), template, name.clone(), self.destinations);
        let (id, config) = found.await.map_err(of_store)?;
        Ok((UsedDestination { id, name: name.clone() }, config))
    }

    /// Starts a job.
    ///
    /// # Errors
    /// 409 when the room has ended meanwhile, 503 `media_unavailable`.
    pub async fn start(
        &self,
        call: &Call,
        room: &Room,
        (source, output): (EgressSource, EgressOutput),
        (detail, destination): (EgressDetail, Option<UsedDestination>),
        render: fn(&Egress) -> Response,
    ) -> Result<Response, Problem> {
        let max_participants = call.plan().await?.effective_cap(room.max_participants);
        let egress = EgressRequest { room: room.namespaced_name(), max_participants, source, output };
        let wanted = StartEgressRequest { room: room.id, egress, detail, destination };
        let started = call.state.tree.start_egress(call.project(), wanted, call.keep(render)).await;
        started.map(|job| render(&job)).map_err(of_tree)
    }

    /// The job that a path names. A participant finds those of its own room.
    ///
    /// # Errors
    /// 404 `recording_not_found` or `broadcast_not_found`.
    pub async fn find(&self, call: &Call, id: EgressId) -> Result<Egress, Problem> {
        let job = call.state.store.egress(call.project(), self.kind, id).await.map_err(of_store)?;
        match &call.caller {
            Caller::RoomToken(claims) if claims.room != job.namespaced_room() => Err(self.kind.not_found()),
            _ => Ok(job),
        }
    }

    /// The job that a path names, as the media plane has it now.
    ///
    /// # Errors
    /// 404, 503 `media_unavailable`.
    pub async fn get(&self, call: &Call) -> Result<Egress, Problem> {
        let id: EgressId = call.path("egress_id")?;
        call.no_query()?;
        let job = self.find(call, id).await?;
        if job.status.is_final() {
            return Ok(job);
        }
        call.state.tree.refresh_egress(job.project_id, job.egress_id).await.map_err(of_tree)
    }

    /// The job that a path names, to somebody who may stop it.
    async fn find_permitted(&self, call: &Call, id: EgressId) -> Result<Egress, Problem> {
        call.permit(self.permission).await?;
        self.find(call, id).await
    }

    /// Lets those pass who may stop the job that a path names.
    ///
    /// # Errors
    /// 403, 404.
    pub async fn permit_stop(&self, call: &Call) -> Result<(), Problem> {
        self.find_permitted(call, call.path("egress_id")?).await.map(drop)
    }

    /// Tells the job that a path names to finish. One that is final is given as it is.
    ///
    /// # Errors
    /// 403, 404, 503 `media_unavailable`.
    pub async fn stop(&self, call: &Call, render: fn(&Egress) -> Response) -> Result<Response, Problem> {
        let id: EgressId = call.path("egress_id")?;
        call.no_query()?;
        call.no_body()?;
        let job = self.find_permitted(call, id).await?;
        if job.status.is_final() {
            return Ok(render(&job));
        }
        let stopped = call.state.tree.stop_egress(job.project_id, job.egress_id, call.keep(render)).await;
        stopped.map(|job| render(&job)).map_err(of_tree)
    }

    /// A page of the project's jobs, as a query filters them.
    ///
    /// # Errors
    /// 400.
    pub async fn list(&self, call: &Call) -> Result<Page<Egress>, Problem> {
        let mut query = call.query()?;
        let page = query.page()?;
        let filter = EgressFilter {
            room: query.text("room").map(|text| room_name("room", &text)).transpose()?,
            status: query.word("status", |word| word.parse().ok(), EgressStatus::WORDS)?,
            after: query.parsed("after")?,
            before: query.parsed("before")?,
        };
        query.finish()?;
        self.page(call, filter, page).await
    }

    /// A page of the jobs of the room that a path names.
    ///
    /// # Errors
    /// 400, 404 `room_not_found`.
    pub async fn list_of_room(&self, call: &Call) -> Result<Page<Egress>, Problem> {
        let name = call.room()?;
        let mut query = call.query()?;
        let page = query.page()?;
        query.finish()?;
        call.state.store.room(call.project(), name.clone()).await.map_err(of_store)?;
        self.page(call, EgressFilter { room: Some(name), ..EgressFilter::default() }, page).await
    }

    async fn page(&self, call: &Call, filter: EgressFilter, page: PageRequest) -> Result<Page<Egress>, Problem> {
        call.state.store.egresses(call.project(), self.kind, filter, page).await.map_err(of_store)
    }
}
