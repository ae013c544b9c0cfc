//! Schema migrations, by number. The table `schema_version` has the number of the last one applied.

use std::borrow::Cow;
use std::time::Duration;

use super::health::{check_server, refuse_pooler};
use super::indexes::{self, UpcomingIndex};
use crate::error::StoreError;
use crate::options::OlderSchema;
use crate::sql::postgres::{PostgresServer, Session};
use crate::sql::values::args;

/// All migrations, in order. A released migration is never edited; a schema change is a new file.
const MIGRATIONS: &[&str] = &[
    concat!(
        include_str!("../../migrations/postgres/lease.sql"),
        include_str!("../../migrations/postgres/0001_schema.sql")
    ),
    include_str!("../../migrations/postgres/0002_upload_nodes.sql"),
    include_str!("../../migrations/postgres/0003_events_of_projects.sql"),
    include_str!("../../migrations/postgres/0004_local_files.sql"),
    include_str!("../../migrations/postgres/0005_order_of_open_rooms.sql"),
    include_str!("../../migrations/postgres/0006_bans.sql"),
    include_str!("../../migrations/postgres/0007_room_limits.sql"),
    include_str!("../../migrations/postgres/0008_auto_record.sql"),
    include_str!("../../migrations/postgres/0009_event_history.sql"),
    include_str!("../../migrations/postgres/0010_webhook_endpoint_changes.sql"),
    include_str!("../../migrations/postgres/0011_session_quality.sql"),
    include_str!("../../migrations/postgres/0012_erasures_and_key_use.sql"),
    include_str!("../../migrations/postgres/0013_rows_of_rooms.sql"),
];

/// Tables of the lease, for an empty database. The advisory lock serializes servers that start at the same time.
pub(super) const CREATE_LEASE: &str = concat!(
    "SELECT pg_advisory_xact_lock(5136917);\n",
    include_str!("../../migrations/postgres/lease.sql")
);

/// Returns the number of the schema that this program writes.
pub(crate) fn newest() -> i64 {
    i64::try_from(migrations().count()).unwrap_or(i64::MAX)
}

/// Returns the migrations, including further ones for tests of mixed versions.
pub(super) fn migrations() -> impl Iterator<Item = Cow<'static, str>> {
    #[cfg(feature = "faults")]
    let further = super::faults::further_migrations();
    #[cfg(not(feature = "faults"))]
    let further: &[String] = &[];
    MIGRATIONS
        .iter()
        .copied()
        .chain(further.iter().map(String::as_str))
        .map(Cow::Borrowed)
}

/// Maximum duration for a migration's statement.
pub(super) const STATEMENT_LIMIT: Duration = Duration::from_secs(24 * 3_600);

const HAS_SCHEMA: &str = "SELECT to_regclass('schema_version') IS NOT NULL";
const VERSION: &str = "SELECT version FROM schema_version WHERE id = 1";
const SET_VERSION: &str = "UPDATE schema_version SET version = ?1 WHERE id = 1";
/// Table of the schema number, and a lock for programs that migrate at the same time.
const CREATE: &str = "SELECT pg_advisory_xact_lock(5136917);
     CREATE TABLE IF NOT EXISTS schema_version (id BIGINT PRIMARY KEY CHECK (id = 1), version BIGINT NOT NULL);
     INSERT INTO schema_version (id, version) VALUES (1, 0) ON CONFLICT DO NOTHING";

/// Checks the server and its schema, and migrates the schema if allowed.
pub(super) fn prepare(
    server: &PostgresServer,
    older_schema: OlderSchema,
) -> Result<(), StoreError> {
    let session = Session::connect(server, STATEMENT_LIMIT)?;
    check_server(&session)?;
    let found = version(&session)?;
    match older_schema {
        OlderSchema::Refuse if found < newest() => Err(StoreError::OlderSchema {
            found,
            known: newest(),
        }),
        OlderSchema::Migrate if found < newest() => migrate(&session),
        _ => Ok(()),
    }
}

/// Applies missing migrations, in one transaction.
fn migrate(session: &Session) -> Result<(), StoreError> {
    // Unlike SQLite's, PostgreSQL's migrations are one transaction, so other programs see the old schema or the new one.
    session.batch("BEGIN")?;
    apply(session)?;
    session.batch("COMMIT")
}

/// Applies missing migrations, in the open transaction.
pub(super) fn apply(session: &Session) -> Result<(), StoreError> {
    apply_all(session, &migrations().collect::<Vec<_>>())
}

/// Applies the missing ones among `migrations`.
pub(super) fn apply_all(session: &Session, migrations: &[Cow<'_, str>]) -> Result<(), StoreError> {
    session.batch(CREATE)?;
    // Read under the lock: another program may have migrated in the meantime.
    let found = found(session)?;
    for (number, migration) in (1i64..)
        .zip(migrations)
        .filter(|(number, _)| *number > found)
    {
        // Before the migration, whose IF NOT EXISTS would accept an invalid index.
        indexes::drop_invalid(session, migration)?;
        session.batch(migration)?;
        session.put(SET_VERSION, args![number])?;
    }
    Ok(())
}

/// Reads a database's schema number; 0 if it has no tables.
///
/// # Errors
/// [`StoreError::NewerSchema`] if this program does not know the schema.
pub(crate) fn version(session: &Session) -> Result<i64, StoreError> {
    let (found, known) = (found(session)?, newest());
    if found > known {
        Err(StoreError::NewerSchema { found, known })
    } else {
        Ok(found)
    }
}

/// Reads a database's schema number, which may be unknown to this program; 0 if it has no tables.
pub(super) fn found(session: &Session) -> Result<i64, StoreError> {
    // A query on a missing table would fail, and abort the transaction of a migration.
    let exists = |answer: &[String]| answer.first().is_some_and(|answer| answer == "t");
    if !exists(&session.texts(HAS_SCHEMA)?) {
        return Ok(0);
    }
    let found = session.texts(VERSION)?;
    let number = found.first().and_then(|number| number.parse().ok());
    number.ok_or_else(|| StoreError::Fault("the number of the schema cannot be read".into()))
}

/// Builds the indexes of schemas that a database does not have yet, while servers of the older version use it. The remains of an
/// interrupted build are dropped, and built again. Blocks; must not be called on a runtime thread.
///
/// # Errors
/// If the database cannot be used, has a newer schema, or another process is building indexes.
pub fn build_indexes(server: &PostgresServer) -> Result<Vec<UpcomingIndex>, StoreError> {
    refuse_pooler(server)?;
    let session = Session::connect(server, STATEMENT_LIMIT)?;
    check_server(&session)?;
    let found = version(&session)?;
    if found == 0 {
        // The first server creates the tables with their indexes.
        return Ok(Vec::new());
    }
    // A concurrent build waits for running transactions, one after another, for longer than the usual 2 s.
    session.batch("SET lock_timeout = 0")?;
    let migrations: Vec<_> = (1i64..).zip(migrations()).collect();
    let lacking = migrations.iter().filter(|(number, _)| *number > found);
    indexes::build(&session, lacking.map(|(_, text)| text.as_ref()))
}
