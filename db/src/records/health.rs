//! The health of the database.

use std::path::Path;

use crate::engine::writer::Queue;
use crate::engine::{postgres, sqlite};
use crate::error::StoreError;
use crate::records::heartbeat::renew_heartbeat;
use crate::sql::Sql;
use crate::store::Store;
use crate::store_options::Location;

/// Reads a whole file, and returns the names of its damaged tables, separated by commas. Blocks.
///
/// # Errors
/// The file cannot be read, for another reason than damage.
pub fn damaged_tables(file: &Path) -> Result<String, StoreError> {
    sqlite::damage::find(file)
}

impl Store {
    /// Reads from and writes to the database.
    ///
    /// # Errors
    /// Fails when it cannot be read or written now, or a table of the file is damaged.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.check_damage()?;
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
            Location::Server(_) => postgres::migrate::newest(),
        }
    }
}
