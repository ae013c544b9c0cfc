//! Checks of a database server, for `conclave check` and at start.

use std::time::{Duration, Instant};

use super::STATEMENT_LIMIT;
use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::postgres::{PostgresServer, Session, is_protocol_violation};

/// Round trips measured; the shortest counts.
const ROUND_TRIPS: usize = 5;
/// Sessions that keep a transaction open while another session is observed for a change of its server process.
const HOLDERS: usize = 4;

/// Reason for refusing a pooler in transaction or statement mode.
const POOLED: &str = "a pooler gives each transaction another session, and settings of sessions are lost: connect to PostgreSQL itself, or \
                      let the pooler keep sessions (pool_mode=session of PgBouncer)";

const VERSION: &str = "SELECT current_setting('server_version')";
const HAS_STANDBY: &str = "SELECT current_setting('synchronous_standby_names') <> ''
     AND current_setting('synchronous_commit') IN ('on', 'remote_apply')";
const COMMIT: &str = "SELECT current_setting('synchronous_commit')";
/// Standbys that may lack acknowledged commits. Without the rights of `pg_monitor`, a user sees none.
const ASYNCHRONOUS: &str =
    "SELECT coalesce(string_agg(application_name, ', ' ORDER BY application_name), '')
     FROM pg_stat_replication WHERE sync_state IN ('async', 'potential')";
const PROCESS: &str = "SELECT CAST(pg_backend_pid() AS BIGINT)";

const SERVER: &str =
    "SELECT current_setting('server_version_num'), current_setting('server_encoding')";
/// Oldest supported version, as `server_version_num`.
const OLDEST_VERSION: i64 = 140_000;
/// Only encoding that can store every text of a client.
const ENCODING: &str = "UTF8";

/// Properties of a database server, as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresHealth {
    /// Version, such as `15.18`.
    pub version: String,
    /// Whether connections to it are encrypted.
    pub is_encrypted: bool,
    /// Shortest measured round trip.
    pub round_trip: Duration,
    /// Whether a commit waits until a second server has it.
    pub has_synchronous_standby: bool,
    /// Setting `synchronous_commit`: the point that a commit waits for.
    pub synchronous_commit: String,
    /// Names of the standbys that may lack acknowledged commits, as far as the user may see them.
    pub asynchronous_standbys: String,
}

/// Checks a database server. Blocks; must not be called on a runtime thread.
///
/// # Errors
/// If the server cannot be reached, is too old or does not respond, or if a pooler gives a session's transactions to different server
/// processes.
pub fn check_postgres(server: &PostgresServer) -> Result<PostgresHealth, StoreError> {
    let session = Session::connect(server, STATEMENT_LIMIT)?;
    // First: behind a pooler, the prepared statements below may be missing, and fail for that reason.
    refuse_pooler(server)?;
    check_server(&session)?;
    let sql = Sql::Postgres(&session);
    Ok(PostgresHealth {
        version: sql.value(VERSION, &[])?,
        is_encrypted: server.is_encrypted(),
        round_trip: round_trip(sql)?,
        has_synchronous_standby: sql.value(HAS_STANDBY, &[])?,
        synchronous_commit: sql.value(COMMIT, &[])?,
        asynchronous_standbys: sql.value(ASYNCHRONOUS, &[])?,
    })
}

/// Refuses a database that cannot be used: an old version, an encoding other than UTF-8, a pooler in transaction mode. An unreachable
/// database is not refused, since a server waits for it. Blocks; must not be called on a runtime thread.
///
/// # Errors
/// If the database cannot be used.
pub fn require_suitable_postgres(server: &PostgresServer) -> Result<(), StoreError> {
    let Ok(session) = Session::connect(server, STATEMENT_LIMIT) else {
        return Ok(());
    };
    // Without a reply, nothing is known, so nothing is refused.
    if is_pooled(server).unwrap_or_default() {
        return Err(StoreError::Unavailable(POOLED.into()));
    }
    let is_answered = session.batch("SELECT 1").is_ok();
    // A failed check counts only if the server responds: otherwise the connection may have been lost in between.
    check_server(&session).or_else(|error| if is_answered { Err(error) } else { Ok(()) })
}

/// Checks that the server is new enough, and that the database can store every text.
pub(super) fn check_server(session: &Session) -> Result<(), StoreError> {
    let found = session.texts(SERVER)?;
    let [version, encoding] = found.as_slice() else {
        return Err(StoreError::Fault(
            "the settings of PostgreSQL cannot be read".into(),
        ));
    };
    let version_of_server: i64 = version.parse().unwrap_or_default();
    if version_of_server < OLDEST_VERSION {
        let (found, known) = (version_of_server / 10_000, OLDEST_VERSION / 10_000);
        return Err(StoreError::Unavailable(format!(
            "PostgreSQL {known} or newer is needed, not {found}"
        )));
    }
    if encoding != ENCODING {
        return Err(StoreError::Unavailable(format!(
            "the database has the encoding {encoding}, which cannot store every text: create one with ENCODING '{ENCODING}' TEMPLATE template0"
        )));
    }
    Ok(())
}

/// Refuses a pooler in transaction or statement mode. Blocks; must not be called on a runtime thread.
///
/// # Errors
/// If there is one, or the server cannot be reached.
pub(super) fn refuse_pooler(server: &PostgresServer) -> Result<(), StoreError> {
    if is_pooled(server)? {
        Err(StoreError::Unavailable(POOLED.into()))
    } else {
        Ok(())
    }
}

fn round_trip(sql: Sql<'_>) -> Result<Duration, StoreError> {
    let mut shortest = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let started = Instant::now();
        sql.value::<i64>("SELECT 1", &[])?;
        shortest = shortest.min(started.elapsed());
    }
    Ok(shortest)
}

/// Returns whether a session's server process changes while other sessions are busy.
fn is_pooled(server: &PostgresServer) -> Result<bool, StoreError> {
    let session = Session::connect(server, STATEMENT_LIMIT)?;
    let sql = Sql::Postgres(&session);
    let process = sql.value::<i64>(PROCESS, &[])?;
    let mut holders = Vec::new();
    // Each holder occupies a server process. A pooler must then give the observed session another one; PostgreSQL itself never does.
    for _ in 0..HOLDERS {
        let holder = Session::connect(server, STATEMENT_LIMIT)?;
        match holder.batch("BEGIN") {
            // PgBouncer in statement mode rejects `BEGIN` with this error. PostgreSQL never does.
            Err(error) if is_protocol_violation(&error) => return Ok(true),
            started => started?,
        }
        let taken = Sql::Postgres(&holder).value::<i64>(PROCESS, &[])?;
        holders.push(holder);
        // A server process that has not prepared the statement rejects it.
        let now = sql.value::<i64>(PROCESS, &[]);
        if taken == process
            || now.as_ref().is_ok_and(|now| *now != process)
            || matches!(now, Err(StoreError::Fault(_)))
        {
            return Ok(true);
        }
        now?;
    }
    Ok(false)
}
