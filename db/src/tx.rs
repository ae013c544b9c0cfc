//! Transaction of a write job, its events, and the hook that receives them.

use std::mem;
use std::sync::Arc;

use conclave_model::event::{EndpointDisabledEvent, Event, TestEvent};
use conclave_model::{DeliveryId, EndpointId, Identity, ProjectId, Timestamp};

use crate::sql::values::args;
use crate::sql::{Row, Sql, no_row};
use crate::vault::{Sealed, Vault};
use crate::{StoreError, rotation_lock};

/// Transaction of one write job.
pub(crate) struct Tx<'a> {
    /// The writer's connection. On SQLite, it has an open savepoint unless the job is a single statement or the first of its transaction.
    pub(crate) sql: Sql<'a>,
    /// Time at which the job started to run, so never before it was queued. It may be earlier than the previous job's if the clock was set
    /// back: order comes from sequence numbers.
    pub(crate) now: Timestamp,
    /// Keys that encrypt secrets.
    pub(crate) vault: &'a Vault,
    /// Events of this job, in order. The commit hook receives them once they are on disk.
    pub(crate) events: Vec<CommittedEvent>,
    /// Rooms opened by this job, minus rooms ended, by project.
    pub(crate) rooms: RoomCounts,
    /// Emitted events, which are written together after the job.
    emitted: Vec<EmittedEvent>,
}

/// Event to be written.
struct EmittedEvent {
    project: ProjectId,
    room: String,
    event_type: &'static str,
    payload: String,
    /// Participant that it is about, for the history's filter.
    identity: Option<Identity>,
    /// Only webhook endpoint that receives it; `None` for all active endpoints that subscribe to its type.
    endpoint: Option<EndpointId>,
}

/// Webhook endpoint that was not deleted.
struct Endpoint {
    id: EndpointId,
    url: String,
    is_enabled: bool,
    /// Names of the events that it receives; all if empty.
    events: Vec<String>,
}

impl Endpoint {
    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let events: Option<String> = row.get("events")?;
        Ok(Self {
            id: row.get("id")?,
            url: row.get("url")?,
            is_enabled: row.get("enabled")?,
            events: events
                .map(|events| serde_json::from_str(&events))
                .transpose()?
                .unwrap_or_default(),
        })
    }

    fn receives(&self, event: &EmittedEvent) -> bool {
        match event.endpoint {
            // Whatever its filter, and even if it was just disabled, since the event is about the endpoint itself.
            Some(only) => only == self.id,
            None => {
                let is_chosen = |name: &String| name == event.event_type;
                self.is_enabled && (self.events.is_empty() || self.events.iter().any(is_chosen))
            }
        }
    }
}

/// Changes to projects' numbers of open rooms. They are written once per batch: a statement per room would take a third of its creation
/// time.
#[derive(Debug, Default)]
pub(crate) struct RoomCounts(Vec<(ProjectId, i64)>);

/// Never below 0: a number that was too low is corrected at the next start, and must not keep a room from ending.
const COUNT_ROOMS: &str = "UPDATE projects SET open_rooms = CASE WHEN open_rooms + ?2 < 0 THEN 0 ELSE open_rooms + ?2 END WHERE id = ?1";

impl RoomCounts {
    /// Adds `change` to a project's number of open rooms.
    pub(crate) fn add(&mut self, project: &ProjectId, change: i64) {
        match self.0.iter_mut().find(|(known, _)| known == project) {
            // A linear search, since a batch concerns few projects.
            Some((_, sum)) => *sum += change,
            None => self.0.push((project.clone(), change)),
        }
    }

    /// Adds the changes of another job.
    pub(crate) fn extend(&mut self, other: &Self) {
        other
            .0
            .iter()
            .for_each(|(project, change)| self.add(project, *change));
    }

    /// Writes the changes.
    pub(crate) fn write(&self, sql: Sql<'_>) -> Result<(), StoreError> {
        let mut changed = self.0.iter().filter(|(_, change)| *change != 0);
        changed.try_for_each(|(project, change)| sql.put(COUNT_ROOMS, args![project, *change]))
    }
}

const INSERT_EVENT: &str = "INSERT INTO events (project_id, room, type, payload, created_at, identity) VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING id";
const ENDPOINTS: &str = "SELECT id, url, enabled, events FROM webhook_endpoints WHERE project_id = ?1 AND active = 1 ORDER BY id";
const INSERT_DELIVERY: &str = "INSERT INTO webhook_deliveries
        (id, project_id, endpoint_id, endpoint_url, event_id, event_type, status, next_attempt_at, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?7, ?7)";

impl<'a> Tx<'a> {
    pub(crate) fn new(sql: Sql<'a>, now: Timestamp, vault: &'a Vault) -> Self {
        Self {
            sql,
            now,
            vault,
            events: Vec::new(),
            rooms: RoomCounts::default(),
            emitted: Vec::new(),
        }
    }
}

impl Tx<'_> {
    /// Seals under the deployment's current key; `None` if there is none. No rotation reads the records from here to the end of this
    /// transaction, so none misses the secret.
    pub(crate) fn seal(&self, plain: &[u8], purpose: &str) -> Result<Option<Sealed>, StoreError> {
        let key = rotation_lock::hold(self.sql)?;
        self.vault
            .seal(key.as_deref(), plain, purpose)
            .map_err(|error| StoreError::not_sealed(&error))
    }

    /// Seals under the deployment's current key, or under the derived key if there is none.
    pub(crate) fn seal_always(&self, plain: &[u8], purpose: &str) -> Result<Sealed, StoreError> {
        let key = rotation_lock::hold(self.sql)?;
        self.vault
            .seal_always(key.as_deref(), plain, purpose)
            .map_err(|error| StoreError::not_sealed(&error))
    }

    /// Emits an event: it is written with the job, with a pending delivery for each active webhook endpoint of its project.
    pub(crate) fn emit(&mut self, event: &Event) -> Result<(), StoreError> {
        let context = event.context();
        self.emitted.push(EmittedEvent {
            project: context.project_id.clone(),
            room: context.room.to_string(),
            event_type: event.event_type().as_str(),
            payload: serde_json::to_string(event)?,
            identity: event.identity().cloned(),
            endpoint: None,
        });
        Ok(())
    }

    /// Emits a [`TestEvent`] for an active webhook endpoint.
    pub(crate) fn emit_test(
        &mut self,
        project: &ProjectId,
        endpoint: EndpointId,
    ) -> Result<(), StoreError> {
        self.emitted.push(EmittedEvent {
            project: project.clone(),
            room: String::new(),
            // Stored like any event, so that it is signed, retried and listed like any delivery.
            event_type: TestEvent::NAME,
            payload: serde_json::to_string(&TestEvent::new(project.clone(), self.now))?,
            identity: None,
            endpoint: Some(endpoint),
        });
        Ok(())
    }

    /// Emits an [`EndpointDisabledEvent`] for the webhook endpoint that it is about.
    pub(crate) fn emit_disabled(
        &mut self,
        project: &ProjectId,
        endpoint: EndpointId,
        reason: String,
    ) -> Result<(), StoreError> {
        let event = EndpointDisabledEvent::new(project.clone(), endpoint, reason, self.now);
        self.emitted.push(EmittedEvent {
            project: project.clone(),
            room: String::new(),
            event_type: EndpointDisabledEvent::NAME,
            payload: serde_json::to_string(&event)?,
            identity: None,
            endpoint: Some(endpoint),
        });
        Ok(())
    }

    /// Writes the job's events and their deliveries.
    pub(crate) fn write_events(&mut self) -> Result<(), StoreError> {
        // Taken, so that a second call writes nothing twice.
        let emitted = mem::take(&mut self.emitted);
        let Some(EmittedEvent { project, .. }) = emitted.first() else {
            return Ok(());
        };
        let rows = emitted.iter().map(|event| {
            *args![
                &event.project,
                &event.room,
                event.event_type,
                &event.payload,
                self.now,
                event.identity.as_ref()
            ]
        });
        // All events in one round trip, with the endpoints of their project. Their ids are needed for the deliveries.
        let (endpoints, ids) = self.sql.many_and_each(
            (ENDPOINTS, args![project]),
            Endpoint::read,
            INSERT_EVENT,
            rows,
            |row| row.get("id"),
        )?;
        let mut active = vec![(project.clone(), endpoints)];
        for (event, id) in emitted.iter().zip(ids) {
            let id = id.first().copied().ok_or_else(no_row)?;
            let EmittedEvent {
                project,
                event_type,
                ..
            } = event;
            // Endpoints are read once per project and job, inside the transaction: an endpoint that was deleted before gets nothing.
            let known = match active.iter().position(|(known, _)| known == project) {
                Some(known) => known,
                None => {
                    active.push((project.clone(), self.endpoints(project)?));
                    active.len() - 1
                }
            };
            let receives = |endpoint: &&Endpoint| endpoint.receives(event);
            let endpoints: Vec<&Endpoint> = active[known].1.iter().filter(receives).collect();
            // The URL is copied, so that the delivery list shows where each one went after the endpoint has changed.
            for endpoint in &endpoints {
                let row = args![
                    DeliveryId::new(),
                    project,
                    endpoint.id,
                    &endpoint.url,
                    id,
                    *event_type,
                    self.now
                ];
                self.sql.put(INSERT_DELIVERY, row)?;
            }
            self.events.push(CommittedEvent {
                id,
                project_id: project.clone(),
                event_type,
                payload: event.payload.as_str().into(),
                endpoints: endpoints.into_iter().map(|endpoint| endpoint.id).collect(),
            });
        }
        Ok(())
    }

    fn endpoints(&self, project: &ProjectId) -> Result<Vec<Endpoint>, StoreError> {
        self.sql.many(ENDPOINTS, args![project], Endpoint::read)
    }
}

/// Receives committed events, each project's in commit order. Runs on a writer thread, so it must be quick.
pub type CommitHook = Box<dyn Fn(&[CommittedEvent]) + Send + Sync>;

/// Event that is on disk.
#[derive(Debug, Clone)]
pub struct CommittedEvent {
    /// Larger than the id of every earlier committed event of the project.
    pub id: i64,
    /// Project that the event belongs to.
    pub project_id: ProjectId,
    /// Event name, such as `room.started`.
    pub event_type: &'static str,
    /// Exact JSON body that webhook endpoints receive.
    pub payload: Arc<str>,
    /// The webhook endpoints with a queued delivery.
    pub endpoints: Vec<EndpointId>,
}
