//! The schema, as numbered migrations. The table `schema` holds the number of the last one that was applied.

use std::borrow::Cow;
use std::time::Duration;

use super::health::{check_server, refuse_pooler};
use super::indexes::{self, UpcomingIndex};
use crate::error::StoreError;
use crate::options::OlderSchema;
use crate::sql::postgres::{PostgresServer, Session};
use crate::sql::values::args;

/// Every migration, in order. A migration that has shipped is never edited; a change of the schema is a new file.
const MIGRATIONS: &[&str] = &[
    concat!(
        include_str!("../../migrations/postgres/lease.sql"),
        include_str!("../../migrations/postgres/0001_schema.sql")
    ),
    include_str!("../../migrations/postgres/0002_upload_nodes.sql"),
    include_str!("../../migrations/postgres/0003_events_of_projects.sql"),
    include_str!("../../migrations/postgres/0004_local_files.sql"),
    include_str!("../../migrations/postgres/0005_order_of_open_rooms.sql"),
];

/// The tables of the lease, in an empty database. Servers that start at once take turns.
pub(super) const CREATE_LEASE: &str = concat!(
    "SELECT pg_advisory_xact_lock(5136917);\n",
    include_str!("../../migrations/postgres/lease.sql")
);

/// Returns the number of the schema that this program writes.
pub(crate) fn newest() -> i64 {
    i64::try_from(migrations().count()).unwrap_or(i64::MAX)
}

/// The migrations, with the further ones that tests of mixed versions name.
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

/// The longest time that a statement of a migration takes.
pub(super) const STATEMENT_LIMIT: Duration = Duration::from_secs(24 * 3_600);

const HAS_SCHEMA: &str = "SELECT to_regclass('schema_version') IS NOT NULL";
const VERSION: &str = "SELECT version FROM schema_version WHERE id = 1";
const SET_VERSION: &str = "UPDATE schema_version SET version = ?1 WHERE id = 1";
/// The table of the number, and a lock that two programs which migrate at once take in turn.
const CREATE: &str = "SELECT pg_advisory_xact_lock(5136917);
     CREATE TABLE IF NOT EXISTS schema_version (id BIGINT PRIMARY KEY CHECK (id = 1), version BIGINT NOT NULL);
     INSERT INTO schema_version (id, version) VALUES (1, 0) ON CONFLICT DO NOTHING";

/// Checks the server and its schema, and migrates the schema if it may be.
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

/// Applies the migrations that a database lacks, in one transaction.
fn migrate(session: &Session) -> Result<(), StoreError> {
    session.batch("BEGIN")?;
    apply(session)?;
    session.batch("COMMIT")
}

/// Applies the migrations that a database lacks, in the transaction that is open.
pub(super) fn apply(session: &Session) -> Result<(), StoreError> {
    apply_all(session, &migrations().collect::<Vec<_>>())
}

/// The same, with these migrations.
pub(super) fn apply_all(session: &Session, migrations: &[Cow<'_, str>]) -> Result<(), StoreError> {
    session.batch(CREATE)?;
    // Another program may have migrated meanwhile.
    let found = found(session)?;
    for (number, migration) in (1i64..)
        .zip(migrations)
        .filter(|(number, _)| *number > found)
    {
        indexes::drop_invalid(session, migration)?;
        session.batch(migration)?;
        session.put(SET_VERSION, args![number])?;
    }
    Ok(())
}

/// Reads the number of a database's schema; 0 for one without tables.
///
/// # Errors
/// [`StoreError::NewerSchema`] when this program does not know the schema.
pub(crate) fn version(session: &Session) -> Result<i64, StoreError> {
    let (found, known) = (found(session)?, newest());
    if found > known {
        Err(StoreError::NewerSchema { found, known })
    } else {
        Ok(found)
    }
}

/// Reads the number of a database's schema, which this program may not know; 0 for one without tables.
pub(super) fn found(session: &Session) -> Result<i64, StoreError> {
    let exists = |answer: &[String]| answer.first().is_some_and(|answer| answer == "t");
    if !exists(&session.texts(HAS_SCHEMA)?) {
        return Ok(0);
    }
    let found = session.texts(VERSION)?;
    let number = found.first().and_then(|number| number.parse().ok());
    number.ok_or_else(|| StoreError::Fault("the number of the schema cannot be read".into()))
}

/// Builds the indexes of the schemas that a database does not have yet, while servers of the older version use it. What a build that was
/// stopped has left is dropped and built again. Blocks; must not be called on a thread of a runtime.
///
/// # Errors
/// The database cannot be used, has a newer schema, or another process builds them.
pub fn build_indexes(server: &PostgresServer) -> Result<Vec<UpcomingIndex>, StoreError> {
    refuse_pooler(server)?;
    let session = Session::connect(server, STATEMENT_LIMIT)?;
    check_server(&session)?;
    let found = version(&session)?;
    if found == 0 {
        // The first server creates the tables with their indexes.
        return Ok(Vec::new());
    }
    // A build waits for the transactions that run, one after another.
    session.batch("SET lock_timeout = 0")?;
    let migrations: Vec<_> = (1i64..).zip(migrations()).collect();
    let lacking = migrations.iter().filter(|(number, _)| *number > found);
    indexes::build(&session, lacking.map(|(_, text)| text.as_ref()))
}
