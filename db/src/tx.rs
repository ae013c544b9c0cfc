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
    /// The writer's connection; a savepoint is open on it.
    pub(crate) sql: Sql<'a>,
    /// The time of the batch. Earlier than that of the batch before if the clock was set back: order comes from sequence numbers.
    pub(crate) now: Timestamp,
    /// The keys that encrypt secrets.
    pub(crate) vault: &'a Vault,
    /// The events of this job, in order; the commit hook receives them once they are on disk.
    pub(crate) events: Vec<CommittedEvent>,
}

const INSERT_EVENT: &str =
    "INSERT INTO events (project_id, room, type, payload, created_at) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
const ACTIVE_ENDPOINTS: &str = "SELECT id, url FROM webhook_endpoints WHERE project_id = ?1 AND active = 1 ORDER BY id";
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
        let endpoints = self.queue_deliveries(project, (id, event_type))?;
        let project_id = project.clone();
        self.events.push(CommittedEvent { id, project_id, event_type, payload: payload.into(), endpoints });
        Ok(())
    }

    fn queue_deliveries(
        &self,
        project: &ProjectId,
        (event, event_type): (i64, &str),
    ) -> Result<Vec<EndpointId>, StoreError> {
        let read = |row: &crate::sql::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let endpoints: Vec<(EndpointId, String)> = self.sql.many(ACTIVE_ENDPOINTS, args![project], read)?;
        for (endpoint, url) in &endpoints {
            let row = args![DeliveryId::new(), project, *endpoint, url, event, event_type, self.now];
            self.sql.put(INSERT_DELIVERY, row)?;
        }
        Ok(endpoints.into_iter().map(|(endpoint, _)| endpoint).collect())
    }
}
