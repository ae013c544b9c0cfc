//! The transaction that a write job runs in, the events that it emits, and the hook that receives them.

use std::mem;
use std::sync::Arc;

use conclave_model::event::{Event, TestEvent};
use conclave_model::{DeliveryId, EndpointId, ProjectId, Timestamp};

use crate::sql::values::args;
use crate::sql::{Sql, no_row};
use crate::vault::{Sealed, Vault};
use crate::{StoreError, rotation_lock};

/// The transaction of one write job.
pub(crate) struct Tx<'a> {
    /// The writer's connection. On SQLite a savepoint is open on it, unless the job is one statement.
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
    /// The events that the job has emitted. They are written together when it has run.
    emitted: Vec<EmittedEvent>,
}

/// An event that is to be written.
struct EmittedEvent {
    project: ProjectId,
    room: String,
    event_type: &'static str,
    payload: String,
    /// The only webhook endpoint that has it; `None` for all that are active.
    endpoint: Option<EndpointId>,
}

/// An active webhook endpoint, and its url.
type Endpoint = (EndpointId, String);

/// Changes of the number of open rooms. Those of a batch are written together: a statement for each room would take as long as
/// a third of its creation.
#[derive(Debug, Default)]
pub(crate) struct RoomCounts(Vec<(ProjectId, i64)>);

/// A number that was too low is corrected at the next start. It must not keep a room from ending.
const COUNT_ROOMS: &str = "UPDATE projects SET open_rooms = CASE WHEN open_rooms + ?2 < 0 THEN 0 ELSE open_rooms + ?2 END WHERE id = ?1";

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

const INSERT_EVENT: &str = "INSERT INTO events (project_id, room, type, payload, created_at) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
const ACTIVE_ENDPOINTS: &str =
    "SELECT id, url FROM webhook_endpoints WHERE project_id = ?1 AND active = 1 ORDER BY id";
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
    /// Seals under the key that the deployment has now; `None` when it has no key. No rotation reads the records from here to the end of
    /// this transaction, so it finds what is sealed here.
    pub(crate) fn seal(&self, plain: &[u8], purpose: &str) -> Result<Option<Sealed>, StoreError> {
        let key = rotation_lock::hold(self.sql)?;
        self.vault
            .seal(key.as_deref(), plain, purpose)
            .map_err(|error| StoreError::not_sealed(&error))
    }

    /// The same, under the derived key when the deployment has none.
    pub(crate) fn seal_always(&self, plain: &[u8], purpose: &str) -> Result<Sealed, StoreError> {
        let key = rotation_lock::hold(self.sql)?;
        self.vault
            .seal_always(key.as_deref(), plain, purpose)
            .map_err(|error| StoreError::not_sealed(&error))
    }

    /// Emits an event: it is written with the job, and a pending delivery of it for every active webhook endpoint of its project.
    pub(crate) fn emit(&mut self, event: &Event) -> Result<(), StoreError> {
        let context = event.context();
        self.emitted.push(EmittedEvent {
            project: context.project_id.clone(),
            room: context.room.to_string(),
            event_type: event.event_type().as_str(),
            payload: serde_json::to_string(event)?,
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
            event_type: TestEvent::NAME,
            payload: serde_json::to_string(&TestEvent::new(project.clone(), self.now))?,
            endpoint: Some(endpoint),
        });
        Ok(())
    }

    /// Writes the events of the job, and their deliveries.
    pub(crate) fn write_events(&mut self) -> Result<(), StoreError> {
        let emitted = mem::take(&mut self.emitted);
        let mut active: Vec<(ProjectId, Vec<Endpoint>)> = Vec::new();
        let rows = emitted.iter().map(|event| {
            *args![
                &event.project,
                &event.room,
                event.event_type,
                &event.payload,
                self.now
            ]
        });
        let ids = self.sql.each(INSERT_EVENT, rows, |row| row.get("id"))?;
        for (event, id) in emitted.iter().zip(ids) {
            let id = id.first().copied().ok_or_else(no_row)?;
            let EmittedEvent {
                project,
                event_type,
                endpoint,
                ..
            } = event;
            let known = match active.iter().position(|(known, _)| known == project) {
                Some(known) => known,
                None => {
                    active.push((project.clone(), self.active_endpoints(project)?));
                    active.len() - 1
                }
            };
            let receives = |(id, _): &&Endpoint| endpoint.is_none_or(|only| only == *id);
            let endpoints: Vec<&Endpoint> = active[known].1.iter().filter(receives).collect();
            for (endpoint, url) in &endpoints {
                let row = args![
                    DeliveryId::new(),
                    project,
                    *endpoint,
                    url,
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
                endpoints: endpoints
                    .into_iter()
                    .map(|(endpoint, _)| *endpoint)
                    .collect(),
            });
        }
        Ok(())
    }

    fn active_endpoints(&self, project: &ProjectId) -> Result<Vec<Endpoint>, StoreError> {
        self.sql.many(ACTIVE_ENDPOINTS, args![project], |row| {
            Ok((row.get("id")?, row.get("url")?))
        })
    }
}

/// Receives events once they are on disk, those of a project in the order of their commit. Runs on a thread of the writer, so it must be
/// quick.
pub type CommitHook = Box<dyn Fn(&[CommittedEvent]) + Send + Sync>;

/// An event that is on disk.
#[derive(Debug, Clone)]
pub struct CommittedEvent {
    /// Larger than the id of every event of the project that was committed before.
    pub id: i64,
    /// The project that the event belongs to.
    pub project_id: ProjectId,
    /// The event's name, for example `room.started`.
    pub event_type: &'static str,
    /// The exact JSON body that webhook endpoints receive.
    pub payload: Arc<str>,
    /// The active webhook endpoints of the project; a delivery is queued for each.
    pub endpoints: Vec<EndpointId>,
}
