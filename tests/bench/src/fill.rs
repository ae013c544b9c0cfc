//! Rows written directly to a stopped server's database, because creating them by requests would take hours.

use std::path::Path;

use rusqlite::params;
use serde_json::json;

use crate::BenchError;
use crate::connection::Connection;
use crate::process::Process;

/// The numbers above `?1` up to `?2`, as `n`.
const NUMBERS: &str = "WITH RECURSIVE numbers (n) AS (SELECT ?1 + 1 WHERE ?1 < ?2 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2) ";
/// Ended rooms for the sessions.
const PAST_ROOMS: u32 = 1_000;

const OPEN_ROOMS: &str =
    "INSERT INTO rooms (id, project_id, name, max_participants, empty_timeout_seconds, status, created_at, empty_deadline)
     SELECT randomblob(16), ?3, 'filled-' || hex(randomblob(8)), 0, 36000, 'open', unixepoch() * 1000,
            (unixepoch() + 36000) * 1000 FROM numbers";
const ENDED_ROOMS: &str =
    "INSERT INTO rooms (id, project_id, name, max_participants, empty_timeout_seconds, status, created_at, ended_at)
     SELECT randomblob(16), ?3, 'past-' || n, 0, 300, 'ended', unixepoch() * 1000, unixepoch() * 1000 FROM numbers";
/// From a thousand identities with three roles.
const SESSIONS: &str =
    "INSERT INTO sessions (id, project_id, room_id, room, participant_identity, participant_sid, kind, role, joined_at,
                           left_at)
     SELECT randomblob(16), ?3, r.id, r.name, 'person-' || (n * 7919 % 1000), 'PA_' || n, 'standard', 'role-' || (n % 3),
            unixepoch() * 1000 - n * 1000, unixepoch() * 1000 - n * 1000 + 500
     FROM numbers JOIN rooms r ON r.project_id = ?3 AND r.name = 'past-' || (n % 1000 + 1)";
const EVENT: &str = "INSERT INTO events (project_id, room, type, payload, created_at)
     SELECT ?3, 'past-1', CASE n % 2 WHEN 0 THEN 'room.started' ELSE 'room.finished' END,
            '{\"type\":\"room.started\",\"project_id\":\"p\",\"room\":\"past-1\",\"occurred_at\":\"2026-01-01T00:00:00Z\"}',
            unixepoch() * 1000
     FROM numbers";
/// One in ten failed, the others were accepted.
const DELIVERIES: &str =
    "INSERT INTO webhook_deliveries (id, project_id, endpoint_id, endpoint_url, event_id, event_type, status, attempts,
                                     delivered_at, created_at)
     SELECT randomblob(16), ?3, x'01930000000070008000000000000001', 'http://127.0.0.1/', e.id, e.type,
            CASE n % 10 WHEN 0 THEN 'failed' ELSE 'delivered' END, 1, unixepoch() * 1000, unixepoch() * 1000
     FROM numbers JOIN events e ON e.id = (SELECT min(id) FROM events) + n % (SELECT count(*) FROM events)";

/// A stopped server's database.
pub struct Filler {
    connection: rusqlite::Connection,
    project: String,
}

impl Filler {
    /// Runs a server to create its database with an open room, and stops it.
    pub async fn create(conclave: &Path, data: &Path) -> Result<Self, BenchError> {
        let server = Process::conclave(conclave, data)?;
        let mut connection = Connection::open(&server.api()).await?;
        let room = json!({"name": "bench", "empty_timeout_seconds": 36_000});
        connection
            .json(&server.key(), "POST /v1/rooms", &room)
            .await?;
        server.stop()?;
        Self::open(data)
    }

    /// Opens the database in a data directory.
    pub fn open(data: &Path) -> Result<Self, BenchError> {
        let connection = rusqlite::Connection::open(data.join("conclave.db"))?;
        connection.execute_batch(
            "PRAGMA synchronous = OFF; PRAGMA cache_size = -500000; PRAGMA temp_store = MEMORY",
        )?;
        let project = connection.query_row("SELECT id FROM projects", [], |row| row.get(0))?;
        Ok(Self {
            connection,
            project,
        })
    }

    fn insert(&self, sql: &str, from: u32, to: u32) -> Result<(), BenchError> {
        self.connection
            .execute(&format!("{NUMBERS}{sql}"), params![from, to, self.project])?;
        Ok(())
    }

    /// Adds open rooms without participants, whose deadlines are hours away.
    pub fn open_rooms(&self, count: u32) -> Result<(), BenchError> {
        self.insert(OPEN_ROOMS, 0, count)?;
        let sum = "UPDATE projects SET open_rooms = open_rooms + ?1 WHERE id = ?2";
        self.connection.execute(sum, params![count, self.project])?;
        Ok(())
    }

    /// Adds the ended rooms for the sessions, and some events.
    pub fn past_rooms(&self) -> Result<(), BenchError> {
        self.insert(ENDED_ROOMS, 0, PAST_ROOMS)?;
        self.insert(EVENT, 0, 1_000)
    }

    /// Adds closed sessions to the first `from`, until there are `to`.
    pub fn sessions(&self, from: u32, to: u32) -> Result<(), BenchError> {
        self.insert(SESSIONS, from, to)
    }

    /// Adds deliveries to the first `from`, until there are `to`.
    pub fn deliveries(&self, from: u32, to: u32) -> Result<(), BenchError> {
        self.insert(DELIVERIES, from, to)
    }
}
