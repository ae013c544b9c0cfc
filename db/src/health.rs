//! The health of the database file, and its backup.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::error::StoreError;
use crate::heartbeat::renew_heartbeat;
use crate::sqlite;
use crate::sqlite::migrate::SCHEMA;
use crate::store::Store;
use crate::writer::Queue;

impl Store {
    /// Reads from and writes to the file.
    ///
    /// # Errors
    /// Fails when the file cannot be read or written now.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.read(|sql| sql.value::<i64>("SELECT 1", &[])).await?;
        // A transaction that changes nothing would succeed on a full disk.
        self.write(Queue::SERVER, |tx| renew_heartbeat(tx)).await
    }

    /// Checks the whole file for damage. Returns the number of its schema.
    ///
    /// # Errors
    /// Fails with a description of the first damage found.
    pub async fn check(&self) -> Result<i64, StoreError> {
        self.bulk_read(|sql| sqlite::health::check(sql.sqlite())).await
    }

    /// The number of the newest schema that this program knows.
    #[must_use]
    pub fn schema() -> i64 {
        SCHEMA
    }

    /// Copies the database into a new file, as it is at one moment, while it is in use.
    ///
    /// # Errors
    /// Fails for a file that exists already or cannot be written.
    pub async fn backup(&self, to: PathBuf) -> Result<(), StoreError> {
        let shown = to.display().to_string();
        // Created empty and with mode 0600 first, because the copy holds the secrets of the original.
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to)
            .map_err(|error| StoreError::Unavailable(format!("{shown}: {error}")))?;
        let copied = self.bulk_read(move |sql| sqlite::health::copy(sql.sqlite(), &to)).await;
        if copied.is_err() {
            let _ = fs::remove_file(&shown);
        }
        copied
    }

    /// The path of the file, for messages.
    #[must_use]
    pub fn location(&self) -> String {
        self.path().display().to_string()
    }
}
