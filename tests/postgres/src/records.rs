//! The records of a server under test, on the chosen engine: test operations on them next to the server.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::cluster::Cluster;
use crate::database::{BUSY_TIMEOUT, Database};
use crate::engine::Engine;
use crate::session::Session;

/// Location of a test's records.
#[derive(Debug)]
pub enum Records {
    /// In this file.
    File(PathBuf),
    /// In a database on the shared test server.
    Server(Database<'static>),
}

/// A lock on the records: writes wait, and reads continue, until it is dropped.
#[derive(Debug)]
pub enum Lock {
    /// A transaction with SQLite's write lock.
    File(Connection),
    /// A transaction with a lock on each table.
    Server(Session),
}

impl Records {
    /// Returns the location for new records: this file, which does not exist yet, or a database as `prepare` leaves it.
    ///
    /// # Panics
    /// As [`Cluster::shared`].
    #[must_use]
    pub fn create(file: PathBuf, prepare: impl FnOnce(&str)) -> Self {
        match Engine::chosen() {
            Engine::Sqlite => Self::File(file),
            Engine::Postgres => Self::Server(
                Cluster::shared()
                    .prepared_database("the current schema", |database| prepare(&database.url())),
            ),
        }
    }

    /// Returns the database's URL, if it is not a file.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        match self {
            Self::File(_) => None,
            Self::Server(database) => Some(database.url()),
        }
    }

    /// Runs a statement, or several.
    ///
    /// # Panics
    /// A statement fails.
    pub fn run(&self, text: &str) {
        match self {
            Self::File(file) => connect(file)
                .execute_batch(text)
                .expect("the statement runs"),
            Self::Server(database) => drop(database.run(text)),
        }
    }

    /// Returns a query's only value as text.
    ///
    /// # Panics
    /// The query fails, or its value is neither a number nor a text.
    #[must_use]
    pub fn value(&self, query: &str) -> String {
        match self {
            Self::File(file) => match connect(file)
                .query_row(query, [], |row| row.get(0))
                .expect("the query runs")
            {
                Value::Integer(number) => number.to_string(),
                Value::Text(text) => text,
                other => panic!("{query}: {other:?}"),
            },
            Self::Server(database) => database.run(query),
        }
    }

    /// Returns the SQL expression for a new random id.
    #[must_use]
    pub const fn random_id(&self) -> &'static str {
        match self {
            Self::File(_) => "randomblob(16)",
            Self::Server(_) => "gen_random_uuid()",
        }
    }

    /// Locks the records, as another program may, for longer than a write waits.
    ///
    /// # Panics
    /// Another program has locked them.
    #[must_use]
    pub fn lock(&self) -> Lock {
        match self {
            Self::File(file) => {
                let connection = connect(file);
                connection.execute_batch("BEGIN IMMEDIATE").expect("a lock");
                Lock::File(connection)
            }
            Self::Server(database) => Lock::Server(database.lock_records()),
        }
    }

    /// Returns whether another program's read keeps an old snapshot: rows deleted since then take space until it ends.
    ///
    /// # Panics
    /// The records cannot be queried.
    #[must_use]
    pub fn are_held_by_a_read(&self) -> bool {
        match self {
            Self::File(file) => {
                let connection = connect(file);
                connection.busy_timeout(Duration::ZERO).expect("a timeout");
                let is_busy =
                    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
                is_busy.expect("a checkpoint")
            }
            Self::Server(database) => {
                let others = "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
                database.run(&format!("SELECT count(backend_xmin) FROM {others}")) != "0"
            }
        }
    }

    /// Returns whether the records contain a text verbatim, as text or as bytes.
    ///
    /// # Panics
    /// The records cannot be read.
    #[must_use]
    pub fn contain(&self, text: &str) -> bool {
        match self {
            Self::File(file) => ["", "-wal", "-shm"].iter().any(|ending| {
                let mut path = OsString::from(file);
                path.push(ending);
                let bytes = fs::read(path).unwrap_or_default();
                bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            }),
            Self::Server(database) => {
                let dump = database.dump();
                // The notation of pg_dump for a binary column.
                let bytes: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
                dump.contains(text) || dump.contains(&bytes)
            }
        }
    }

    /// Returns the committed data as other records; a file's copy is in a copy of its folder, which the caller has made.
    #[must_use]
    pub fn copy(&self, file: PathBuf) -> Self {
        match self {
            Self::File(_) => Self::File(file),
            Self::Server(database) => Self::Server(database.copy()),
        }
    }
}

fn connect(file: &Path) -> Connection {
    let connection = Connection::open(file).expect("the database opens");
    connection.busy_timeout(BUSY_TIMEOUT).expect("a timeout");
    connection
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(folder: &tempfile::TempDir) -> Records {
        let records = Records::create(folder.path().join("test.db"), |_| {});
        records.run("CREATE TABLE notes (note TEXT, bytes BYTEA); INSERT INTO notes VALUES ('plain', 'bytes')");
        records
    }

    #[test]
    fn a_statement_changes_what_a_query_returns() {
        let folder = tempfile::tempdir().unwrap();
        let records = records(&folder);
        assert_eq!(
            (
                records.value("SELECT note FROM notes"),
                records.value("SELECT count(*) FROM notes")
            ),
            ("plain".to_owned(), "1".to_owned())
        );
        assert!(
            records.contain("plain") && records.contain("bytes") && !records.contain("missing")
        );
    }

    #[test]
    fn reads_go_on_while_the_records_are_locked() {
        let folder = tempfile::tempdir().unwrap();
        let records = records(&folder);
        let lock = records.lock();
        assert_eq!(records.value("SELECT count(*) FROM notes"), "1");
        let waits = std::thread::scope(|scope| {
            let writes = scope.spawn(|| records.run("UPDATE notes SET note = 'changed'"));
            let before = records.value("SELECT note FROM notes");
            drop(lock);
            writes.join().unwrap();
            before
        });
        assert_eq!(
            (waits, records.value("SELECT note FROM notes")),
            ("plain".to_owned(), "changed".to_owned())
        );
    }
}
