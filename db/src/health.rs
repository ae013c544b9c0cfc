//! Is the file sound, does it answer, and a copy of it.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::OrStoreError;
use crate::migrate::{SCHEMA, version};
use crate::{Store, StoreError};

/// Copies everything this read transaction sees.
fn copy(sql: &Connection, to: &Path) -> Result<(), StoreError> {
    let mut file = Connection::open(to).or_store_error()?;
    let copied = Backup::new(sql, &mut file).and_then(|backup| backup.step(-1)).or_store_error()?;
    match copied {
        StepResult::Done => Ok(()),
        unfinished => Err(StoreError::Unavailable(format!("the copy was not finished: {unfinished:?}"))),
    }
}

impl Store {
    /// Says whether the file can be read and written now.
    ///
    /// # Errors
    /// What stands in the way.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.read(|sql| sql.query_row("SELECT 1", [], |_| Ok(())).or_store_error()).await?;
        self.write(|_| Ok(())).await
    }

    /// Reads the whole file for damage. Gives the schema it has.
    ///
    /// # Errors
    /// What is damaged.
    pub async fn check(&self) -> Result<i64, StoreError> {
        self.read(|sql| {
            let verdict: String = sql.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).or_store_error()?;
            if verdict != "ok" {
                return Err(StoreError::Fault(verdict));
            }
            let dangling = sql.prepare("PRAGMA foreign_key_check").and_then(|mut s| s.exists([])).or_store_error()?;
            if dangling {
                return Err(StoreError::Fault("a row refers to one that is not there".into()));
            }
            version(sql)
        })
        .await
    }

    /// The newest schema this program knows.
    #[must_use]
    pub fn schema() -> i64 {
        SCHEMA
    }

    /// Copies the database into a new file, as it is at one moment, while it is in use.
    ///
    /// # Errors
    /// A file that exists already or cannot be written.
    pub async fn backup(&self, to: PathBuf) -> Result<(), StoreError> {
        let shown = to.display().to_string();
        // Made first, empty and private: the copy holds what the original holds.
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to)
            .map_err(|error| StoreError::Unavailable(format!("{shown}: {error}")))?;
        let copied = self.read(move |sql| copy(sql, &to)).await;
        if copied.is_err() {
            let _ = fs::remove_file(&shown);
        }
        copied
    }

    /// Where the file lies, for people.
    #[must_use]
    pub fn location(&self) -> String {
        self.path().display().to_string()
    }
}
