//! The server as a whole: its runs, the health of its database, the initial records of its actors, and housekeeping.
//!
//! The heartbeat is on disk while a server runs. After a crash, it is the end of the sessions that the crash interrupted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use conclave_model::idempotency::RETENTION;
use conclave_model::ingress::Ingress;
use conclave_model::{EndpointId, ProjectId, Timestamp};

use crate::RunningEgress;
use crate::database::Database;
use crate::engine::postgres::lease::LeaseTiming;
use crate::engine::writer::Queue;
use crate::engine::{postgres, sqlite};
use crate::error::{StoreError, left_out};
use crate::options::Location;
use crate::records::rooms::rows::RoomSnapshot;
use crate::records::{egresses, ingresses, rooms, webhook_endpoints};
use crate::sql::values::args;
use crate::sql::{Row, Sql};
use crate::tx::Tx;

/// Crash of the previous server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// Last heartbeat before the crash.
    pub last_heartbeat: Timestamp,
    /// Start of this server.
    pub restarted_at: Timestamp,
}

const SELECT: &str = "SELECT at FROM heartbeat WHERE id = 1";
const WRITE: &str =
    "INSERT INTO heartbeat (id, at) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET at = excluded.at";
const RENEW: &str = "UPDATE heartbeat SET at = ?1 WHERE id = 1";
/// Heartbeat interval in a file, whose disk may otherwise be idle.
const INTERVAL_OF_FILE: Duration = Duration::from_secs(60);
const DELETE: &str = "DELETE FROM heartbeat WHERE id = 1";

const COUNT_ROOMS: &str =
    "UPDATE projects SET open_rooms = (SELECT count(*) FROM rooms WHERE project_id = projects.id AND status = 'open')
     WHERE open_rooms <> (SELECT count(*) FROM rooms WHERE project_id = projects.id AND status = 'open')";

/// Starts the empty timers of rooms that the last stop has emptied: they have neither a deadline nor an open session.
const START_TIMERS: &str = "UPDATE rooms SET empty_deadline = ?1 + empty_timeout_seconds * 1000
     WHERE status = 'open' AND empty_deadline IS NULL
         AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.room_id = rooms.id AND left_at IS NULL)";

fn last_heartbeat(sql: Sql<'_>) -> Result<Option<Timestamp>, StoreError> {
    sql.one(SELECT, args![], |row| row.get("at"))
}

/// Records that the server runs, if its start is recorded and its stop is not.
pub(crate) fn renew_heartbeat(tx: &Tx<'_>) -> Result<(), StoreError> {
    // An UPDATE: after the stop is recorded, a late heartbeat must not look like a running server.
    tx.sql.put(RENEW, args![tx.now])
}

fn first_heartbeat(tx: &mut Tx<'_>) -> Result<Option<Crash>, StoreError> {
    let crash = last_heartbeat(tx.sql)?.map(|at| Crash {
        last_heartbeat: at,
        restarted_at: tx.now,
    });
    tx.sql.put(WRITE, args![tx.now])?;
    Ok(crash)
}

fn start_timers(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.sql.put(START_TIMERS, args![tx.now])
}

fn count_rooms(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    // Each change maintains the counts, so they should be right. A count that is too low would keep empty rooms open forever.
    let corrected = tx.sql.change(COUNT_ROOMS, args![])?;
    if corrected > 0 {
        log::warn!(projects = corrected; "the number of open rooms was wrong and has been corrected");
    }
    Ok(())
}

/// Checks a whole file, and returns the names of its damaged tables, separated by commas. Blocks.
///
/// # Errors
/// If the file cannot be read for another reason than damage.
pub fn damaged_tables(file: &Path) -> Result<String, StoreError> {
    sqlite::damage::find(file)
}

const SELECT_LIVE: &str = "SELECT id FROM projects p
     WHERE EXISTS (SELECT 1 FROM rooms WHERE project_id = p.id AND status = 'open')
        OR EXISTS (SELECT 1 FROM webhook_endpoints WHERE project_id = p.id AND active = 1)
        OR EXISTS (SELECT 1 FROM egresses WHERE project_id = p.id AND ended_at IS NULL)
        OR EXISTS (SELECT 1 FROM uploads WHERE project_id = p.id)";

// Queries with the result of `SELECT_LIVE`, for one project and one table at a time.
const SELECT_PROJECTS: &str = "SELECT id FROM projects";
const SELECT_LIVE_IN: [&str; 4] = [
    "SELECT 1 FROM rooms WHERE project_id = ?1 AND status = 'open' LIMIT 1",
    "SELECT 1 FROM webhook_endpoints WHERE project_id = ?1 AND active = 1 LIMIT 1",
    "SELECT 1 FROM egresses WHERE project_id = ?1 AND ended_at IS NULL LIMIT 1",
    "SELECT 1 FROM uploads WHERE project_id = ?1 LIMIT 1",
];

/// A project's live records at one moment.
#[derive(Debug)]
pub struct LiveRecords {
    /// Open rooms with their connected participants.
    pub rooms: Vec<RoomSnapshot>,
    /// Whether rooms are missing, because the file is damaged.
    pub lacks_rooms: bool,
    /// Egresses that are not final, or whose file has to be uploaded.
    pub egresses: Vec<RunningEgress>,
    /// Ingress endpoints that are not final.
    pub ingresses: Vec<Ingress>,
    /// Webhook endpoints, active or not.
    pub webhook_endpoints: Vec<EndpointId>,
}

fn live_records(sql: Sql<'_>, project: &ProjectId) -> Result<LiveRecords, StoreError> {
    // Each kind by itself: damage in one table must not keep the others from loading.
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
    let webhook_endpoints = webhook_endpoints::ids(sql, project);
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
        // The single query reads all tables. One damaged page would hide every project.
        Err(StoreError::Damaged(_)) => readable_live_projects(sql),
        read => read,
    }
}

/// Reads the live projects of a file with a damaged table: those with at least one readable live row.
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

/// Maximum rows of each kind deleted by one call.
const BATCH: u32 = 1_000;

const DELETE_RESPONSES: &str = "DELETE FROM idempotency WHERE (project_id, operation, key, caller) IN
        (SELECT project_id, operation, key, caller FROM idempotency WHERE created_at <= ?1 LIMIT ?2)";
const DELETE_SAMPLES: &str = "DELETE FROM quality_samples WHERE (session_id, at) IN
        (SELECT session_id, at FROM quality_samples WHERE at <= ?1 LIMIT ?2)";
/// Up to the last event that is old enough. Events may be kept for longer than their deliveries, so a search by the events' age would read
/// the whole history each time. A pending delivery of an endpoint that is not active has an event to keep and no attempt to come, so it ends
/// like a final one.
pub(crate) const DELETE_DELIVERIES: &str = "DELETE FROM webhook_deliveries WHERE seq IN
        (SELECT seq FROM webhook_deliveries d
         WHERE event_id <= (SELECT id FROM events WHERE created_at <= ?1 ORDER BY created_at DESC, id DESC LIMIT 1)
           AND created_at <= ?1
           AND (status <> 'pending'
                OR EXISTS (SELECT 1 FROM webhook_endpoints w WHERE w.id = d.endpoint_id AND w.enabled = 0))
         ORDER BY event_id LIMIT ?2)";
pub(crate) const DELETE_EVENTS: &str = "DELETE FROM events WHERE id IN
        (SELECT id FROM events e WHERE created_at <= ?1
           AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE event_id = e.id) LIMIT ?2)
     RETURNING project_id, id";
const SET_LAST_DELETED: &str =
    "UPDATE projects SET events_deleted = ?2 WHERE id = ?1 AND events_deleted < ?2";

/// Ages at which the log's records are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRetention {
    /// Age of deliveries that are final, or pending while their endpoint is not active.
    pub deliveries: Duration,
    /// Age of events. An event is kept for at least as long as its deliveries, which have their payload from it.
    pub events: Duration,
}

/// Server-wide records.
#[derive(Debug, Clone)]
pub struct ServerRecords {
    database: Database,
    /// Crash before this server's start; empty until the server has started.
    crash: Arc<OnceLock<Option<Crash>>>,
}

impl ServerRecords {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            crash: Arc::default(),
        }
    }

    /// Records the start of a server, with its first heartbeat. An earlier server's heartbeat shows that it crashed. The open rooms of all
    /// projects are counted again, and rooms emptied by the last stop start their empty timers. Steps that fail because of a damaged table
    /// are skipped.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn begin_run(&self) -> Result<(), StoreError> {
        self.database.mark_as_server()?;
        let started = self.database.write(Queue::SERVER, |tx| {
            // One round trip on PostgreSQL, where each would otherwise be prepared by itself.
            tx.sql
                .prepare(&[SELECT, WRITE, START_TIMERS, COUNT_ROOMS])?;
            let crash = first_heartbeat(tx)?;
            start_timers(tx)?;
            count_rooms(tx)?;
            Ok(crash)
        });
        let crash = match started.await {
            Err(StoreError::Damaged(_)) => {
                // Each step by itself, so that a damaged table prevents only the steps that need it.
                left_out(
                    "the timers of empty rooms were not started",
                    self.database.write(Queue::SERVER, start_timers).await,
                )?;
                left_out(
                    "open rooms were not counted",
                    self.database.write(Queue::SERVER, count_rooms).await,
                )?;
                let started = self.database.write(Queue::SERVER, first_heartbeat).await;
                left_out("it is not known whether the server crashed", started)?.flatten()
            }
            started => started?,
        };
        // Only the first call counts, since a server starts once.
        let _ = self.crash.set(crash);
        Ok(())
    }

    /// Records that the server runs, if its start is recorded and its stop is not.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn renew_heartbeat(&self) -> Result<(), StoreError> {
        self.database
            .write(Queue::SERVER, |tx| renew_heartbeat(tx))
            .await
    }

    /// Returns the heartbeat interval. On PostgreSQL it equals the lease's renewal interval, so that after a takeover, sessions left by
    /// the previous server end at its last renewal.
    #[must_use]
    pub fn heartbeat_interval(&self) -> Duration {
        match self.database.location() {
            Location::File(_) => INTERVAL_OF_FILE,
            Location::Server(_) => LeaseTiming::default().renewal,
        }
    }

    /// Records a clean stop of the server.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn end_run(&self) -> Result<(), StoreError> {
        self.database
            .write(Queue::SERVER, |tx| tx.sql.put(DELETE, args![]))
            .await
    }

    /// Returns the crash before this server's start; `None` if the previous server stopped cleanly, or there was none.
    #[must_use]
    pub fn crash(&self) -> Option<Crash> {
        self.crash.get().copied().flatten()
    }

    /// Reads from and writes to the database.
    ///
    /// # Errors
    /// If it cannot be read or written now, or a table of the file is damaged.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.database.check_damage()?;
        self.database
            .read(|sql| sql.value::<i64>("SELECT 1", &[]))
            .await?;
        // A transaction without changes would succeed on a full disk.
        self.database
            .write(Queue::SERVER, |tx| renew_heartbeat(tx))
            .await
    }

    /// Checks a whole file for damage; PostgreSQL checks its pages itself. Returns the schema number.
    ///
    /// # Errors
    /// Fails with a description of the first damage found.
    pub async fn check(&self) -> Result<i64, StoreError> {
        self.database
            .bulk_read(|sql| match sql {
                Sql::Sqlite(connection) => sqlite::backup::check_connection(connection),
                Sql::Postgres(session) => postgres::migrate::version(session),
            })
            .await
    }

    /// Returns the newest schema number that this program knows for the engine of this store.
    #[must_use]
    pub fn schema(&self) -> i64 {
        match self.database.location() {
            Location::File(_) => sqlite::migrate::SCHEMA,
            Location::Server(_) => postgres::migrate::newest(),
        }
    }

    /// Reads the projects that need an actor when the server starts: those with an open room, an active webhook endpoint or an egress that
    /// is not final. An ingress endpoint that is not final has an open room. If a table is damaged, projects without a readable live row
    /// are missing: they start with the first message to them.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn live_projects(&self) -> Result<Vec<ProjectId>, StoreError> {
        self.database.bulk_read(live_projects).await
    }

    /// Reads a project's live records; if the file is damaged, as much as can be read. Many projects are loaded concurrently, as far as the
    /// engine can, and no other read waits for loads that have not started.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn live_records(&self, project: ProjectId) -> Result<LiveRecords, StoreError> {
        self.database
            .load(move |sql| live_records(sql, &project))
            .await
    }

    /// Deletes stored responses older than 24 hours, and events and deliveries older than `retention`, in all projects. Deliveries that will
    /// be attempted stay. Returns the number of deleted rows; 0 if nothing is left to delete.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn delete_expired(&self, retention: LogRetention) -> Result<usize, StoreError> {
        self.database
            // At most 1,000 rows of each kind, so that other writes do not wait long. The caller repeats until 0.
            .write(Queue::SERVER, move |tx| {
                let LogRetention { deliveries, events } = retention;
                let oldest_delivery = tx.now.before(deliveries);
                let oldest_event = tx.now.before(events.max(deliveries));
                let responses = tx
                    .sql
                    .change(DELETE_RESPONSES, args![tx.now.before(RETENTION), BATCH])?;
                // Deliveries before their events, which cannot be deleted while a delivery refers to them.
                let deliveries = tx
                    .sql
                    .change(DELETE_DELIVERIES, args![oldest_delivery, BATCH])?;
                Ok(responses + deliveries + delete_events(tx, oldest_event)?)
            })
            .await
    }
}

impl ServerRecords {
    /// Deletes samples of sessions' quality that are older than `retention`, in all projects. Returns the number of deleted rows; 0 if
    /// nothing is left to delete.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn delete_quality_samples(&self, retention: Duration) -> Result<usize, StoreError> {
        self.database
            // At most 1,000, as in `delete_expired`.
            .write(Queue::SERVER, move |tx| {
                let oldest = tx.now.before(retention);
                tx.sql.change(DELETE_SAMPLES, args![oldest, BATCH])
            })
            .await
    }
}

/// Deletes events, and records each project's last deleted one, so that a later reader learns that some are missing.
fn delete_events(tx: &Tx<'_>, oldest: Timestamp) -> Result<usize, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get::<ProjectId>("project_id")?, row.get::<i64>("id")?));
    let deleted = tx.sql.many(DELETE_EVENTS, args![oldest, BATCH], read)?;
    let count = deleted.len();
    let mut last = BTreeMap::new();
    for (project, id) in deleted {
        last.entry(project)
            .and_modify(|last: &mut i64| *last = id.max(*last))
            .or_insert(id);
    }
    last.iter()
        .try_for_each(|(project, id)| tx.sql.put(SET_LAST_DELETED, args![project, *id]))?;
    Ok(count)
}
