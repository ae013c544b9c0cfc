//! What is live, from which the actors of a server start.

use conclave_model::ingress::Ingress;
use conclave_model::{EndpointId, ProjectId};

use crate::RunningEgress;
use crate::error::{StoreError, left_out};
use crate::records::rooms::rows::RoomSnapshot;
use crate::records::{egresses, ingresses, rooms, webhook_endpoints};
use crate::sql::Sql;
use crate::sql::values::args;
use crate::store::Store;

const SELECT_LIVE: &str = "SELECT id FROM projects p
     WHERE EXISTS (SELECT 1 FROM rooms WHERE project_id = p.id AND status = 'open')
        OR EXISTS (SELECT 1 FROM webhook_endpoints WHERE project_id = p.id AND active = 1)
        OR EXISTS (SELECT 1 FROM egresses WHERE project_id = p.id AND ended_at IS NULL)
        OR EXISTS (SELECT 1 FROM uploads WHERE project_id = p.id)";

// The same, one project and one table at a time.
const SELECT_PROJECTS: &str = "SELECT id FROM projects";
const SELECT_LIVE_IN: [&str; 4] = [
    "SELECT 1 FROM rooms WHERE project_id = ?1 AND status = 'open' LIMIT 1",
    "SELECT 1 FROM webhook_endpoints WHERE project_id = ?1 AND active = 1 LIMIT 1",
    "SELECT 1 FROM egresses WHERE project_id = ?1 AND ended_at IS NULL LIMIT 1",
    "SELECT 1 FROM uploads WHERE project_id = ?1 LIMIT 1",
];

/// What is live of a project, at one moment.
#[derive(Debug)]
pub struct LiveRecords {
    /// The open rooms with their connected participants.
    pub rooms: Vec<RoomSnapshot>,
    /// Whether rooms are missing, since the file is damaged.
    pub lacks_rooms: bool,
    /// The egresses that are not final, or whose file has to be uploaded.
    pub egresses: Vec<RunningEgress>,
    /// The ingress endpoints that are not final.
    pub ingresses: Vec<Ingress>,
    /// The active webhook endpoints.
    pub webhook_endpoints: Vec<EndpointId>,
}

fn live_records(sql: Sql<'_>, project: &ProjectId) -> Result<LiveRecords, StoreError> {
    let rooms = left_out(
        "the rooms of a project were not loaded",
        rooms::open_rooms(sql, project),
    )?;
    let egresses = egresses::running_egresses(sql, project);
    let egresses = left_out(
        "the recordings and broadcasts of a project were not loaded",
        egresses,
    )?;
    let ingresses = ingresses::live_ingresses(sql, project);
    let ingresses = left_out(
        "the ingress endpoints of a project were not loaded",
        ingresses,
    )?;
    let webhook_endpoints = webhook_endpoints::active_ids(sql, project);
    let webhook_endpoints = left_out(
        "the webhook endpoints of a project were not loaded",
        webhook_endpoints,
    )?;
    Ok(LiveRecords {
        lacks_rooms: rooms.is_none(),
        rooms: rooms.unwrap_or_default(),
        egresses: egresses.unwrap_or_default(),
        ingresses: ingresses.unwrap_or_default(),
        webhook_endpoints: webhook_endpoints.unwrap_or_default(),
    })
}

fn live_projects(sql: Sql<'_>) -> Result<Vec<ProjectId>, StoreError> {
    match sql.many(SELECT_LIVE, args![], |row| row.get("id")) {
        Err(StoreError::Damaged(_)) => readable_live_projects(sql),
        read => read,
    }
}

/// Reads the live projects of a file with a damaged table: those of which a row that is live can be read.
fn readable_live_projects(sql: Sql<'_>) -> Result<Vec<ProjectId>, StoreError> {
    let all: Vec<ProjectId> = sql.many(SELECT_PROJECTS, args![], |row| row.get("id"))?;
    let mut live = Vec::new();
    for project in all {
        let mut is_live = false;
        for query in SELECT_LIVE_IN {
            match sql.one(query, args![&project], |_| Ok(())) {
                Err(StoreError::Damaged(_)) => {}
                found => is_live |= found?.is_some(),
            }
        }
        if is_live {
            live.push(project);
        }
    }
    Ok(live)
}

impl Store {
    /// Reads the projects that need an actor when the server starts: those with an open room, an active webhook endpoint or an
    /// egress that is not final. An ingress endpoint that is not final has an open room. Where a table is damaged, projects of which
    /// nothing live can be read are missing: they start with the first message to them.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn live_projects(&self) -> Result<Vec<ProjectId>, StoreError> {
        self.bulk_read(live_projects).await
    }

    /// Reads what is live of a project; where the file is damaged, as much as can be read. The reads of many projects run at once, as far
    /// as the engine can, and no other read waits for those that have not begun.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn live_records(&self, project: ProjectId) -> Result<LiveRecords, StoreError> {
        self.load(move |sql| live_records(sql, &project)).await
    }
}
