//! The transaction that a write job runs in, and the events that it emits.

use conclave_model::event::Event;
use conclave_model::{DeliveryId, EndpointId, ProjectId, Timestamp};

use crate::StoreError;
use crate::outbox::CommittedEvent;
use crate::sql::Sql;
use crate::values::args;
use crate::vault::Vault;

/// The transaction of one write job.
pub(crate) struct Tx<'a> {
    /// The writer's connection; a savepoint is open on it, unless the job is one statement.
    pub(crate) sql: Sql<'a>,
    /// When the job began to run, so never before it was queued. Earlier than that of the job before if the clock was set back:
    /// order comes from sequence numbers.
    pub(crate) now: Timestamp,
    /// The keys that encrypt secrets.
    pub(crate) vault: &'a Vault,
    /// The events of this job, in order; the commit hook receives them once they are on disk.
    pub(crate) events: Vec<CommittedEvent>,
    /// How many rooms this job has opened, less those that it has ended, by project.
    pub(crate) rooms: RoomCounts,
}

/// Changes of the number of open rooms. Those of a batch are written together: a statement for each room would take as long as
/// a third of its creation.
#[derive(Debug, Default)]
pub(crate) struct RoomCounts(Vec<(ProjectId, i64)>);

/// A number that was too low is corrected at the next start. It must not keep a room from ending.
const COUNT_ROOMS: &str =
    "UPDATE projects SET open_rooms = CASE WHEN open_rooms + ?2 < 0 THEN 0 ELSE open_rooms + ?2 END WHERE id = ?1";

impl RoomCounts {
    /// Counts `change` more open rooms of a project.
    pub(crate) fn add(&mut self, project: &ProjectId, change: i64) {
        match self.0.iter_mut().find(|(known, _)| known == project) {
            Some((_, sum)) => *sum += change,
            None => self.0.push((project.clone(), change)),
        }
    }

    /// Counts all changes of another job too.
    pub(crate) fn extend(&mut self, other: &Self) {
        other.0.iter().for_each(|(project, change)| self.add(project, *change));
    }

    /// Writes the changes.
    pub(crate) fn write(&self, sql: Sql<'_>) -> Result<(), StoreError> {
        let mut changed = self.0.iter().filter(|(_, change)| *change != 0);
        changed.try_for_each(|(project, change)| sql.put(COUNT_ROOMS, args![project, *change]))
    }
}

const INSERT_EVENT: &str =
    "INSERT INTO events (project_id, room, type, payload, created_at) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
const ACTIVE_ENDPOINTS: &str = "SELECT id, url FROM webhook_endpoints WHERE project_id = ?1 AND active = 1 ORDER BY id";
const ENDPOINT_URL: &str = "SELECT url FROM webhook_endpoints WHERE id = ?1 AND project_id = ?2";
const INSERT_DELIVERY: &str = "INSERT INTO webhook_deliveries
        (id, project_id, endpoint_id, endpoint_url, event_id, event_type, status, next_attempt_at, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?7, ?7)";

impl Tx<'_> {
    /// Writes an event, and a pending delivery of it for every active webhook endpoint of its project.
    pub(crate) fn emit(&mut self, event: &Event) -> Result<(), StoreError> {
        let payload = serde_json::to_string(event)?;
        let (project, event_type) = (&event.project_id, event.event_type.as_str());
        let row = args![project, &event.room, event_type, &payload, self.now];
        let id: i64 = self.sql.value(INSERT_EVENT, row)?;
        let endpoints = self.queue_deliveries(project, id, event_type)?;
        let project_id = project.clone();
        self.events.push(CommittedEvent { id, project_id, event_type, payload: payload.into(), endpoints });
        Ok(())
    }

    /// Writes the event `webhook.test`, and a pending delivery of it for one active webhook endpoint. Nothing else has
    /// that event.
    pub(crate) fn emit_test(&mut self, project: &ProjectId, endpoint: EndpointId) -> Result<(), StoreError> {
        let event_type = "webhook.test";
        let payload =
            serde_json::json!({"type": event_type, "project_id": project, "occurred_at": self.now}).to_string();
        let id: i64 = self.sql.value(INSERT_EVENT, args![project, "", event_type, &payload, self.now])?;
        let url: String = self.sql.value(ENDPOINT_URL, args![endpoint, project])?;
        let row = args![DeliveryId::new(), project, endpoint, &url, id, event_type, self.now];
        self.sql.put(INSERT_DELIVERY, row)?;
        let (project_id, endpoints) = (project.clone(), vec![endpoint]);
        self.events.push(CommittedEvent { id, project_id, event_type, payload: payload.into(), endpoints });
        Ok(())
    }

    fn queue_deliveries(
        &self,
        project: &ProjectId,
        event: i64,
        event_type: &str,
    ) -> Result<Vec<EndpointId>, StoreError> {
        let read = |row: &crate::sql::Row<'_>| Ok((row.get("id")?, row.get("url")?));
        let endpoints: Vec<(EndpointId, String)> = self.sql.many(ACTIVE_ENDPOINTS, args![project], read)?;
        for (endpoint, url) in &endpoints {
            let row = args![DeliveryId::new(), project, *endpoint, url, event, event_type, self.now];
            self.sql.put(INSERT_DELIVERY, row)?;
        }
        Ok(endpoints.into_iter().map(|(endpoint, _)| endpoint).collect())
    }
}
