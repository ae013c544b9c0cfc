//! The server as a whole: its runs, the health of its database, the records that its actors start from, and housekeeping.
//!
//! The heartbeat is on disk while a server runs. After a crash it says until when sessions that the crash ended have lasted.

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

/// A crash of the server that ran before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// The last heartbeat before the crash.
    pub last_heartbeat: Timestamp,
    /// The instant at which this server started.
    pub restarted_at: Timestamp,
}

const SELECT: &str = "SELECT at FROM heartbeat WHERE id = 1";
const WRITE: &str =
    "INSERT INTO heartbeat (id, at) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET at = excluded.at";
const RENEW: &str = "UPDATE heartbeat SET at = ?1 WHERE id = 1";
/// The interval of heartbeats in a file: the disk may be idle otherwise.
const INTERVAL_OF_FILE: Duration = Duration::from_secs(60);
const DELETE: &str = "DELETE FROM heartbeat WHERE id = 1";

const COUNT_ROOMS: &str =
    "UPDATE projects SET open_rooms = (SELECT count(*) FROM rooms WHERE project_id = projects.id AND status = 'open')
     WHERE open_rooms <> (SELECT count(*) FROM rooms WHERE project_id = projects.id AND status = 'open')";

/// Starts the empty timers of the rooms that the stop of a server has emptied: they have neither a deadline nor an open session.
const START_TIMERS: &str = "UPDATE rooms SET empty_deadline = ?1 + empty_timeout_seconds * 1000
     WHERE status = 'open' AND empty_deadline IS NULL
         AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.room_id = rooms.id AND left_at IS NULL)";

fn last_heartbeat(sql: Sql<'_>) -> Result<Option<Timestamp>, StoreError> {
    sql.one(SELECT, args![], |row| row.get("at"))
}

/// Records that the server runs, if its start is recorded and its stop is not.
pub(crate) fn renew_heartbeat(tx: &Tx<'_>) -> Result<(), StoreError> {
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
    let corrected = tx.sql.change(COUNT_ROOMS, args![])?;
    if corrected > 0 {
        log::warn!(projects = corrected; "the number of open rooms was wrong and has been corrected");
    }
    Ok(())
}

/// Reads a whole file, and returns the names of its damaged tables, separated by commas. Blocks.
///
/// # Errors
/// The file cannot be read, for another reason than damage.
pub fn damaged_tables(file: &Path) -> Result<String, StoreError> {
    sqlite::damage::find(file)
}

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

/// The most rows of each kind that one call deletes.
const BATCH: u32 = 1_000;

const DELETE_RESPONSES: &str = "DELETE FROM idempotency WHERE (project_id, operation, key, caller) IN
        (SELECT project_id, operation, key, caller FROM idempotency WHERE created_at <= ?1 LIMIT ?2)";
const DELETE_DELIVERIES: &str = "DELETE FROM webhook_deliveries WHERE seq IN
        (SELECT d.seq FROM events e JOIN webhook_deliveries d ON d.event_id = e.id
         WHERE e.created_at <= ?1 AND d.status <> 'pending' LIMIT ?2)";
const DELETE_EVENTS: &str = "DELETE FROM events WHERE id IN
        (SELECT id FROM events e WHERE created_at <= ?1
           AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE event_id = e.id) LIMIT ?2)
     RETURNING project_id, id";
const NOTE_DELETED: &str =
    "UPDATE projects SET events_deleted = ?2 WHERE id = ?1 AND events_deleted < ?2";

/// What the server as a whole records and reads.
#[derive(Debug, Clone)]
pub struct ServerRecords {
    database: Database,
    /// The crash before this server's start; empty until the server has started.
    crash: Arc<OnceLock<Option<Crash>>>,
}

impl ServerRecords {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            crash: Arc::default(),
        }
    }

    /// Records the start of a server, whose first heartbeat this is. A heartbeat of an earlier server shows that it crashed. The
    /// open rooms of all projects are counted anew, and the empty timers start of those that the last stop has emptied. What a
    /// damaged table keeps from being done is left out.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn begin_run(&self) -> Result<(), StoreError> {
        self.database.note_server()?;
        let begun = self.database.write(Queue::SERVER, |tx| {
            tx.sql
                .prepare(&[SELECT, WRITE, START_TIMERS, COUNT_ROOMS])?;
            let crash = first_heartbeat(tx)?;
            start_timers(tx)?;
            count_rooms(tx)?;
            Ok(crash)
        });
        let crash = match begun.await {
            Err(StoreError::Damaged(_)) => {
                // Each part by itself, so that a damaged table keeps only what needs it from being done.
                left_out(
                    "the timers of empty rooms were not started",
                    self.database.write(Queue::SERVER, start_timers).await,
                )?;
                left_out(
                    "open rooms were not counted",
                    self.database.write(Queue::SERVER, count_rooms).await,
                )?;
                let begun = self.database.write(Queue::SERVER, first_heartbeat).await;
                left_out("it is not known whether the server crashed", begun)?.flatten()
            }
            begun => begun?,
        };
        // Only the first start counts: a server starts once.
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

    /// The interval of heartbeats. On PostgreSQL it is that of the renewals of the lease, so that what a server has left behind ends at
    /// its last renewal when another takes over.
    #[must_use]
    pub fn heartbeat_interval(&self) -> Duration {
        match self.database.location() {
            Location::File(_) => INTERVAL_OF_FILE,
            Location::Server(_) => LeaseTiming::default().renewal,
        }
    }

    /// Records that the server stops well.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn end_run(&self) -> Result<(), StoreError> {
        self.database
            .write(Queue::SERVER, |tx| tx.sql.put(DELETE, args![]))
            .await
    }

    /// Returns the crash before this server's start; `None` if the server before it stopped well, or there was none.
    #[must_use]
    pub fn crash(&self) -> Option<Crash> {
        self.crash.get().copied().flatten()
    }

    /// Reads from and writes to the database.
    ///
    /// # Errors
    /// Fails when it cannot be read or written now, or a table of the file is damaged.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.database.check_damage()?;
        self.database
            .read(|sql| sql.value::<i64>("SELECT 1", &[]))
            .await?;
        // A transaction that changes nothing would succeed on a full disk.
        self.database
            .write(Queue::SERVER, |tx| renew_heartbeat(tx))
            .await
    }

    /// Checks a whole file for damage; PostgreSQL checks its pages itself. Returns the number of the schema.
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

    /// The number of the newest schema that this program knows for the engine of this store.
    #[must_use]
    pub fn schema(&self) -> i64 {
        match self.database.location() {
            Location::File(_) => sqlite::migrate::SCHEMA,
            Location::Server(_) => postgres::migrate::newest(),
        }
    }

    /// Reads the projects that need an actor when the server starts: those with an open room, an active webhook endpoint or an
    /// egress that is not final. An ingress endpoint that is not final has an open room. Where a table is damaged, projects of which
    /// nothing live can be read are missing: they start with the first message to them.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn live_projects(&self) -> Result<Vec<ProjectId>, StoreError> {
        self.database.bulk_read(live_projects).await
    }

    /// Reads what is live of a project; where the file is damaged, as much as can be read. The reads of many projects run at once, as far
    /// as the engine can, and no other read waits for those that have not begun.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn live_records(&self, project: ProjectId) -> Result<LiveRecords, StoreError> {
        self.database
            .load(move |sql| live_records(sql, &project))
            .await
    }

    /// Deletes stored responses older than 24 hours, and final deliveries and their events older than `retention`, in every
    /// project. Returns the number of deleted rows; 0 when nothing is left to delete.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn delete_expired(&self, retention: Duration) -> Result<usize, StoreError> {
        self.database
            .write(Queue::SERVER, move |tx| {
                let oldest_event = tx.now.before(retention);
                let responses = tx
                    .sql
                    .change(DELETE_RESPONSES, args![tx.now.before(RETENTION), BATCH])?;
                let deliveries = tx
                    .sql
                    .change(DELETE_DELIVERIES, args![oldest_event, BATCH])?;
                Ok(responses + deliveries + delete_events(tx, oldest_event)?)
            })
            .await
    }
}

/// Deletes events, and notes the last one of each project, so that who reads them later learns that some are missing.
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
        .try_for_each(|(project, id)| tx.sql.put(NOTE_DELETED, args![project, *id]))?;
    Ok(count)
}
