//! The health of the database file, and its backup.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::StoreError;
use crate::heartbeat::renew_heartbeat;
use crate::migrate::{SCHEMA, version};
use crate::store::Store;
use crate::writer::Queue;

/// Copies everything that this read transaction sees.
fn copy(sql: &Connection, to: &Path) -> Result<(), StoreError> {
    let mut file = Connection::open(to)?;
    let copied = Backup::new(sql, &mut file).and_then(|backup| backup.step(-1))?;
    match copied {
        StepResult::Done => Ok(()),
        unfinished => Err(StoreError::Unavailable(format!("the copy was not finished: {unfinished:?}"))),
    }
}

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
        self.bulk_read(|sql| {
            let result: String = sql.value("PRAGMA integrity_check(1)", &[])?;
            if result != "ok" {
                return Err(StoreError::Fault(result));
            }
            if sql.one("PRAGMA foreign_key_check", &[], |_| Ok(()))?.is_some() {
                return Err(StoreError::Fault("a row refers to one that is not there".into()));
            }
            version(sql.sqlite())
        })
        .await
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
        let copied = self.bulk_read(move |sql| copy(sql.sqlite(), &to)).await;
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
