//! What is live, from which the actors of a server start.

use conclave_model::ingress::Ingress;
use conclave_model::{EndpointId, ProjectId};

use crate::error::StoreError;
use crate::room_rows::RoomSnapshot;
use crate::sql::Sql;
use crate::store::Store;
use crate::values::args;
use crate::{RunningEgress, egresses, ingresses, rooms, webhook_endpoints};

const SELECT_LIVE: &str = "SELECT id FROM projects p
     WHERE EXISTS (SELECT 1 FROM rooms WHERE project_id = p.id AND status = 'open')
        OR EXISTS (SELECT 1 FROM webhook_endpoints WHERE project_id = p.id AND active = 1)
        OR EXISTS (SELECT 1 FROM egresses WHERE project_id = p.id AND ended_at IS NULL)
        OR EXISTS (SELECT 1 FROM uploads WHERE project_id = p.id)";

/// What is live of a project, at one moment.
#[derive(Debug)]
pub struct LiveRecords {
    /// The open rooms with their connected participants.
    pub rooms: Vec<RoomSnapshot>,
    /// The egresses that are not final, or whose file has to be uploaded.
    pub egresses: Vec<RunningEgress>,
    /// The ingress endpoints that are not final.
    pub ingresses: Vec<Ingress>,
    /// The active webhook endpoints.
    pub webhook_endpoints: Vec<EndpointId>,
}

fn live_records(sql: Sql<'_>, project: &ProjectId) -> Result<LiveRecords, StoreError> {
    Ok(LiveRecords {
        rooms: rooms::open_rooms(sql, project)?,
        egresses: egresses::running_egresses(sql, project)?,
        ingresses: ingresses::live_ingresses(sql, project)?,
        webhook_endpoints: webhook_endpoints::active_ids(sql, project)?,
    })
}

impl Store {
    /// Reads the projects that need an actor when the server starts: those with an open room, an active webhook endpoint or an
    /// egress that is not final. An ingress endpoint that is not final has an open room.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn live_projects(&self) -> Result<Vec<ProjectId>, StoreError> {
        self.bulk_read(|sql| sql.many(SELECT_LIVE, args![], |row| row.get("id"))).await
    }

    /// Reads what is live of a project. The reads of many projects run at once, as far as the engine can, and no other read waits
    /// for those that have not begun.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn live_records(&self, project: ProjectId) -> Result<LiveRecords, StoreError> {
        self.load(move |sql| live_records(sql, &project)).await
    }
}
