//! Backups that are known to restore: a copy of a file of SQLite is complete, on disk and checked before it has its name.
//!
//! A thread of its own makes a copy, over a connection of its own, at a low priority and in small parts. So neither the writer nor a
//! read waits for it. It holds a snapshot meanwhile, so the write-ahead log grows by what is written until the copy is complete.

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

/// The priority of the thread that copies, below everything else in the process.
const NICENESS: i32 = 15;

/// Backups of the database.
#[derive(Debug, Clone)]
pub struct Backups(pub(crate) Database);

impl Backups {
    /// Copies the database of a file into a new file, as it is at one moment, while it is in use. Returns what the copy contains. The
    /// copy stops if nobody waits for it any more.
    ///
    /// # Errors
    /// Fails for a file that exists already or cannot be written, for a copy that is damaged, and for records that are in PostgreSQL.
    /// Nothing has the name `to` then.
    pub async fn create(&self, to: PathBuf) -> Result<Contents, StoreError> {
        let Location::File(from) = self.0.location().clone() else {
            return Err(StoreError::Unavailable(
                "the records are in PostgreSQL, which pg_dump copies".into(),
            ));
        };
        let vault = Arc::clone(self.0.vault());
        let (reply, answer) = oneshot::channel();
        let run = move || {
            // Of this thread alone. It keeps the usual priority if the system refuses.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            let copied = catch_panic("a backup", || {
                copy_checked(
                    &from,
                    &to,
                    || !reply.is_closed(),
                    |draft| inspect(draft, &vault),
                )
            });
            // The caller may have stopped waiting.
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

/// Copies a file of records, with the changes in a write-ahead log beside it, to `to`, which does not exist. Returns what the copy
/// contains. Blocks.
///
/// # Errors
/// Fails for a file that cannot be read, is damaged, is not one of Conclave, or has triggers, views or virtual tables; and if the copy cannot be written. Nothing has the name
/// `to` then.
pub fn restore(file: &Path, to: &Path, vault: &Vault) -> Result<Contents, StoreError> {
    let check = |draft: &Path| {
        refuse_foreign_objects(draft)?;
        inspect(draft, vault)
    };
    copy_checked(file, to, || true, check)
}

/// The last instant that a record has of a change, also of a command's; the heartbeat of a server is a minute old at most.
const LAST_CHANGE: &str = "SELECT max(at) FROM (
    SELECT max(at) AS at FROM heartbeat
    UNION ALL SELECT max(created_at) FROM events
    UNION ALL SELECT max(created_at) FROM rooms
    UNION ALL SELECT max(created_at) FROM projects
    UNION ALL SELECT max(created_at) FROM api_keys
    UNION ALL SELECT max(joined_at) FROM sessions UNION ALL SELECT max(left_at) FROM sessions) AS changes";

/// What a file of records contains. It is not damaged, and no row refers to one that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The number of its schema. The next start of a server migrates an older one.
    pub schema: i64,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The number of projects.
    pub projects: u64,
    /// The number of rooms, also of those that have ended.
    pub rooms: u64,
    /// The number of rooms that have not ended.
    pub open_rooms: u64,
    /// The last change that a record has the time of. A server notes a minute later at most that it runs.
    pub last_change: Option<Timestamp>,
    /// The encrypted secrets in it.
    pub secrets: SecretCount,
}

/// Checks a whole file for damage and counts what it contains. Of an older version's file, what a migrated copy of it contains.
pub(crate) fn inspect(file: &Path, vault: &Vault) -> Result<Contents, StoreError> {
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
