//! Indexes of a schema that is to come, built ahead and found by its migration.

use std::borrow::Cow;

use test_postgres::Database;

use super::with_schema;
use crate::StoreError;
use crate::engine::postgres::indexes::{IndexState, build};
use crate::engine::postgres::migrate::{apply_all, migrations, newest};
use crate::sql::postgres::Session;

/// A further migration: an index on a table as it is, and one on a column that it adds.
const FURTHER: &str = "-- The next schema.
    ALTER TABLE rooms ADD COLUMN later BIGINT;
    CREATE INDEX IF NOT EXISTS rooms_by_later
        ON rooms (later);
    -- CREATE INDEX IF NOT EXISTS commented_out ON events (room);
    CREATE UNIQUE INDEX IF NOT EXISTS events_ahead ON events (id, room);";

fn ahead(session: &Session) -> Result<Vec<(String, IndexState)>, StoreError> {
    let built = build(session, [FURTHER].into_iter());
    session.batch("SELECT pg_advisory_unlock_all()").unwrap();
    built.map(|indexes| {
        indexes
            .into_iter()
            .map(|index| (index.name, index.state))
            .collect()
    })
}

fn found(state: IndexState) -> Vec<(String, IndexState)> {
    vec![
        ("rooms_by_later".into(), IndexState::Later),
        ("events_ahead".into(), state),
    ]
}

fn id(database: &Database<'_>) -> String {
    database.run("SELECT 'events_ahead'::regclass::oid || ' ' || indisvalid || ' ' || indisunique FROM pg_index WHERE indexrelid = 'events_ahead'::regclass")
}

/// As after a build that was stopped.
fn spoil(database: &Database<'_>) {
    database
        .run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'events_ahead'::regclass");
}

fn migrate(session: &Session) -> Result<(), StoreError> {
    let all: Vec<_> = migrations().chain([Cow::Borrowed(FURTHER)]).collect();
    session.batch("BEGIN")?;
    match apply_all(session, &all) {
        Ok(()) => session.batch("COMMIT"),
        Err(error) => session.roll_back().and(Err(error)),
    }
}

#[test]
fn an_index_that_was_built_ahead_is_found_by_its_migration() {
    with_schema(|database, session| {
        assert_eq!(ahead(session).unwrap(), found(IndexState::Built));
        assert_eq!(ahead(session).unwrap(), found(IndexState::Present));
        spoil(database);
        assert_eq!(ahead(session).unwrap(), found(IndexState::Rebuilt));
        let built = id(database);
        assert!(built.ends_with(" true true"), "{built}");
        migrate(session).unwrap();
        assert_eq!(id(database), built, "the migration has left it as it was");
        assert_eq!(
            database.run("SELECT version FROM schema_version"),
            (newest() + 1).to_string()
        );
        assert_eq!(
            database.run("SELECT count(*) FROM pg_indexes WHERE indexname = 'rooms_by_later'"),
            "1"
        );
    });
}

#[test]
fn a_migration_builds_what_a_stopped_build_has_left_and_does_not_run_beside_a_build() {
    with_schema(|database, session| {
        ahead(session).unwrap();
        spoil(database);
        let spoilt = id(database);
        let mut other = database.session();
        other.run("SELECT pg_advisory_lock(5136919)");
        assert!(
            ahead(session)
                .unwrap_err()
                .to_string()
                .contains("another conclave migrate is running")
        );
        assert!(
            migrate(session)
                .unwrap_err()
                .to_string()
                .contains("let it finish")
        );
        assert_eq!(id(database), spoilt);
        other.run("SELECT pg_advisory_unlock(5136919)");
        migrate(session).unwrap();
        let built = id(database);
        assert!(built.ends_with(" true true") && built != spoilt, "{built}");
    });
}

#[test]
fn every_later_migration_leaves_indexes_that_are_there_already() {
    for migration in migrations().skip(1) {
        for line in migration
            .lines()
            .filter(|line| line.starts_with("CREATE") && line.contains(" INDEX "))
        {
            assert!(
                line.contains(" INDEX IF NOT EXISTS "),
                "conclave migrate builds it ahead: {line}"
            );
        }
    }
}
