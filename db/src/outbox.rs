//! The outbox: events and their deliveries, written in the transaction of the change they report.

use std::sync::Arc;

use conclave_model::event::Event;
use conclave_model::{DeliveryId, EndpointId, ProjectId};
use rusqlite::params;

use crate::StoreError;
use crate::error::OrStoreError;
use crate::writer::Tx;

/// Events of one job, told on once they are on disk.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) events: Vec<CommittedEvent>,
}

/// An event that is on disk.
#[derive(Debug, Clone)]
pub struct CommittedEvent {
    /// Grows with each event.
    pub id: i64,
    /// Whose.
    pub project_id: ProjectId,
    /// The event's name.
    pub event_type: &'static str,
    /// The very body that receivers get.
    pub payload: Arc<str>,
    /// Who gets it.
    pub endpoints: Vec<EndpointId>,
}

impl Tx<'_> {
    /// Queues an event for every active endpoint of its project.
    pub(crate) fn emit(&mut self, event: &Event) -> Result<(), StoreError> {
        let payload = serde_json::to_string(event).map_err(|error| StoreError::Fault(error.to_string()))?;
        let event_type = event.event_type.as_str();
        let project = event.project_id.as_str();
        self.sql
            .prepare_cached(
                "INSERT INTO events (project_id, room, type, payload, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )
            .and_then(|mut s| s.execute(params![project, event.room.as_str(), event_type, payload, self.now.millis()]))
            .or_store_error()?;
        let id = self.sql.last_insert_rowid();
        let endpoints = self.active_endpoints(project).or_store_error()?;
        for (endpoint, url) in &endpoints {
            self.queue_delivery(project, id, *endpoint, url).or_store_error()?;
        }
        self.outbox.events.push(CommittedEvent {
            id,
            project_id: event.project_id.clone(),
            event_type,
            payload: payload.into(),
            endpoints: endpoints.into_iter().map(|(endpoint, _)| endpoint).collect(),
        });
        Ok(())
    }

    fn active_endpoints(&self, project: &str) -> rusqlite::Result<Vec<(EndpointId, String)>> {
        self.sql
            .prepare_cached("SELECT id, url FROM webhook_endpoints WHERE project_id = ?1 AND active = 1 ORDER BY id")?
            .query_map([project], |row| Ok((EndpointId(row.get(0)?), row.get(1)?)))?
            .collect()
    }

    fn queue_delivery(&self, project: &str, event: i64, endpoint: EndpointId, url: &str) -> rusqlite::Result<()> {
        let now = self.now.millis();
        self.sql
            .prepare_cached(
                "INSERT INTO webhook_deliveries
                    (id, project_id, endpoint_id, endpoint_url, event_id, status, next_attempt_at, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, 'pending', ?6, ?6)",
            )?
            .execute(params![DeliveryId::new().0, project, endpoint.0, url, event, now])?;
        Ok(())
    }
}
