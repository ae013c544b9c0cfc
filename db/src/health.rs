//! The health of the database, and its backup.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::error::StoreError;
use crate::heartbeat::renew_heartbeat;
use crate::sql::Sql;
use crate::store::Store;
use crate::store_options::Location;
use crate::writer::Queue;
use crate::{postgres, sqlite};

impl Store {
    /// Reads from and writes to the database.
    ///
    /// # Errors
    /// Fails when it cannot be read or written now.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.read(|sql| sql.value::<i64>("SELECT 1", &[])).await?;
        // A transaction that changes nothing would succeed on a full disk.
        self.write(Queue::SERVER, |tx| renew_heartbeat(tx)).await
    }

    /// Checks a whole file for damage; PostgreSQL checks its pages itself. Returns the number of the schema.
    ///
    /// # Errors
    /// Fails with a description of the first damage found.
    pub async fn check(&self) -> Result<i64, StoreError> {
        self.bulk_read(|sql| match sql {
            Sql::Sqlite(connection) => sqlite::health::check(connection),
            Sql::Postgres(session) => postgres::migrate::version(session),
        })
        .await
    }

    /// The number of the newest schema that this program knows for the engine of this store.
    #[must_use]
    pub fn schema(&self) -> i64 {
        match self.location() {
            Location::File(_) => sqlite::migrate::SCHEMA,
            Location::Server(_) => postgres::migrate::SCHEMA,
        }
    }

    /// Copies the database of a file into a new file, as it is at one moment, while it is in use.
    ///
    /// # Errors
    /// Fails for a file that exists already or cannot be written, and for records that are in PostgreSQL.
    pub async fn backup(&self, to: PathBuf) -> Result<(), StoreError> {
        if let Location::Server(_) = self.location() {
            return Err(StoreError::Unavailable("the records are in PostgreSQL, which pg_dump copies".into()));
        }
        let shown = to.display().to_string();
        // Created empty and with mode 0600 first, because the copy holds the secrets of the original.
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to)
            .map_err(|error| StoreError::Unavailable(format!("{shown}: {error}")))?;
        let copy = move |sql: Sql<'_>| match sql {
            Sql::Sqlite(connection) => sqlite::health::copy(connection, &to),
            Sql::Postgres(_) => Err(StoreError::Fault("a file is copied by SQLite".into())),
        };
        let copied = self.bulk_read(copy).await;
        if copied.is_err() {
            let _ = fs::remove_file(&shown);
        }
        copied
    }
}
