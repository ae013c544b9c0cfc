//! Backups that are checked for a restore: the copy of an SQLite file is complete, on disk and checked before it gets its name.
//!
//! A backup has its own thread with a low priority, its own connection, and copies small parts, so neither the writer nor a read waits for
//! it. It holds a snapshot meanwhile, so the write-ahead log grows by everything written until the copy is complete.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use conclave_model::Timestamp;
use tokio::sync::oneshot;

use crate::database::Database;
use crate::engine::sqlite::backup::{copy_checked, read_checked, refuse_foreign_objects};
use crate::error::{StoreError, catch_panic};
use crate::options::Location;
use crate::records::rotation::{SecretCount, count_sealed};
use crate::vault::Vault;

/// The copying thread's scheduling priority, below everything else in the process.
const NICENESS: i32 = 15;

/// Database backups.
#[derive(Debug, Clone)]
pub struct Backups(pub(crate) Database);

impl Backups {
    /// Copies a snapshot of the database to a new file, while the database is in use. Returns the copy's contents. The copy stops if the
    /// caller stops waiting.
    ///
    /// # Errors
    /// If the file exists already or cannot be written, the copy is damaged, or the records are in PostgreSQL. No file is created then.
    pub async fn create(&self, to: PathBuf) -> Result<Contents, StoreError> {
        let Location::File(from) = self.0.location().clone() else {
            return Err(StoreError::Unavailable(
                "the records are in PostgreSQL: back them up with pg_dump".into(),
            ));
        };
        let vault = Arc::clone(self.0.vault());
        let (reply, answer) = oneshot::channel();
        let run = move || {
            // On Linux, this applies to the calling thread only. If the system refuses, the thread keeps its priority.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            let copied = catch_panic("a backup", || {
                copy_checked(
                    &from,
                    &to,
                    || !reply.is_closed(),
                    |draft| inspect(draft, &vault),
                )
            });
            // The caller may have stopped waiting, so an error is ignored.
            let _ = reply.send(copied);
        };
        let started = thread::Builder::new()
            .name("store-backup".into())
            .spawn(run);
        started.map_err(|error| {
            StoreError::Unavailable(format!("a thread cannot be started: {error}"))
        })?;
        answer
            .await
            .map_err(|_| StoreError::Fault("a backup did not finish".into()))?
    }
}

/// Copies a records file, including the changes in its write-ahead log, to `to`, which must not exist. Returns the copy's contents. Blocks.
///
/// # Errors
/// If the file cannot be read, is damaged, does not belong to Conclave, or has triggers, views or virtual tables, or if the copy cannot be
/// written. No file is created then.
pub fn restore(file: &Path, to: &Path, vault: &Vault) -> Result<Contents, StoreError> {
    let check = |draft: &Path| {
        // On the copy, so that the file cannot change between this check and the copy.
        refuse_foreign_objects(draft)?;
        inspect(draft, vault)
    };
    copy_checked(file, to, || true, check)
}

/// Time of the last recorded change, by a server or a command. A running server's heartbeat is at most a minute old.
const LAST_CHANGE: &str = "SELECT max(at) FROM (
    SELECT max(at) AS at FROM heartbeat
    UNION ALL SELECT max(created_at) FROM events
    UNION ALL SELECT max(created_at) FROM rooms
    UNION ALL SELECT max(created_at) FROM projects
    UNION ALL SELECT max(created_at) FROM api_keys
    UNION ALL SELECT max(joined_at) FROM sessions UNION ALL SELECT max(left_at) FROM sessions) AS changes";

/// Contents of a records file that has no damage and no dangling references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Schema number. A server migrates an older schema.
    pub schema: i64,
    /// File size in bytes.
    pub bytes: u64,
    /// Project count.
    pub projects: u64,
    /// Room count, including ended rooms.
    pub rooms: u64,
    /// Open room count.
    pub open_rooms: u64,
    /// Last recorded change. A running server records its heartbeat at least once a minute.
    pub last_change: Option<Timestamp>,
    /// Number of encrypted secrets.
    pub secrets: SecretCount,
}

/// Checks a whole file for damage, and counts its contents. For an older schema, these are the contents after its migration.
pub(crate) fn inspect(file: &Path, vault: &Vault) -> Result<Contents, StoreError> {
    // Only for display.
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    read_checked(file, |schema, sql| {
        let count = |text: &str| sql.value::<i64>(text, &[]).map(i64::unsigned_abs);
        Ok(Contents {
            schema,
            bytes,
            projects: count("SELECT count(*) FROM projects")?,
            rooms: count("SELECT count(*) FROM rooms")?,
            open_rooms: count("SELECT count(*) FROM rooms WHERE status = 'open'")?,
            last_change: sql.value::<Option<Timestamp>>(LAST_CHANGE, &[])?,
            secrets: count_sealed(sql, vault)?,
        })
    })
}
