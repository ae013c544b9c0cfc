//! Copies of the database at regular times, each checked before the oldest one is removed, and their state for operators.
//!
//! A copy's name contains its time, so a restarted server continues the schedule. A failed attempt is repeated sooner. A file gets a copy's
//! name only when it is complete, so the newest copy by name can be restored.

mod directory;
mod metrics;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_db::{Contents, Store, StoreError};
use conclave_model::{Clock, Timestamp};
use parking_lot::Mutex;

pub use directory::BackupDirectory;
pub use metrics::BackupMetrics;

use crate::config::BackupConfig;

/// Maximum delay before a failed attempt is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(5 * 60);

/// Handle to the copies of a server's database. Clones share them.
#[derive(Clone)]
pub struct Backups(Arc<BackupsInner>);

struct BackupsInner {
    directory: BackupDirectory,
    every: Duration,
    keep: usize,
    database: conclave_db::Backups,
    clock: Clock,
    metrics: BackupMetrics,
    /// The server's start.
    started: Timestamp,
    state: Mutex<BackupAttempts>,
}

/// Attempts' outcomes.
#[derive(Default)]
struct BackupAttempts {
    /// Time of the last good copy, which a previous server may have made.
    last_good: Option<Timestamp>,
    /// Last attempt's error; `None` if it succeeded.
    failure: Option<String>,
}

/// The last good copy's age class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// As recent as configured. A new server without a copy has time to make the first one.
    Ok,
    /// Two further copies have failed, or were not made in time.
    Old,
}

impl Backups {
    /// Spawns the tasks that make copies, and that warn of an old copy. They run until the runtime ends.
    pub fn spawn(
        directory: BackupDirectory,
        config: &BackupConfig,
        store: &Store,
        clock: &Clock,
        metrics: BackupMetrics,
    ) -> Self {
        let BackupConfig { every, keep, .. } = config;
        let now = clock.now();
        directory.remove_drafts();
        // A copy from the future was made before the clock was corrected.
        let last_good = directory
            .copies()
            .into_iter()
            .map(|copy| copy.at)
            .filter(|at| *at <= now)
            .max();
        last_good.iter().for_each(|at| metrics.set_last_good(*at));
        let backups = Self(Arc::new(BackupsInner {
            directory,
            every: *every,
            keep: usize::try_from(*keep).unwrap_or(usize::MAX),
            database: store.backups().clone(),
            clock: clock.clone(),
            metrics,
            started: now,
            state: Mutex::new(BackupAttempts {
                last_good,
                failure: None,
            }),
        }));
        // After a restart, the interval continues from the last copy.
        let first = last_good.map_or(now, |at| at.after(*every));
        tokio::spawn(backups.clone().make_copies(first));
        tokio::spawn(backups.clone().warn_of_old());
        backups
    }

    /// Returns the directory.
    pub fn directory(&self) -> &BackupDirectory {
        &self.0.directory
    }

    /// Returns the last good copy's age class.
    pub fn freshness(&self) -> Freshness {
        if self.old_at() <= self.0.clock.now() {
            Freshness::Old
        } else {
            Freshness::Ok
        }
    }

    /// Returns the time at which the last good copy becomes old.
    fn old_at(&self) -> Timestamp {
        old_at(
            self.0.state.lock().last_good.unwrap_or(self.0.started),
            self.0.every,
        )
    }

    async fn make_copies(self, first: Timestamp) {
        let BackupsInner { clock, every, .. } = &*self.0;
        let mut due = first;
        loop {
            clock.sleep_until(due).await;
            let begun = clock.now();
            let delay = if self.make_copy(begun).await {
                *every
            } else {
                RETRY_DELAY.min(*every)
            };
            // From the start of the attempt, so that the interval does not include the time that a copy takes.
            due = begun.after(delay);
        }
    }

    /// Makes a copy. Returns whether it is good.
    async fn make_copy(&self, at: Timestamp) -> bool {
        let BackupsInner {
            directory,
            keep,
            database,
            metrics,
            state,
            ..
        } = &*self.0;
        let begun = Instant::now();
        // Named by the start, whose state the copy has.
        let path = directory.path_for(at);
        let made = match directory.create() {
            Ok(()) => database.create(path.clone()).await,
            Err(error) => Err(StoreError::Unavailable(error)),
        };
        match made {
            Ok(contents) => {
                *state.lock() = BackupAttempts {
                    last_good: Some(at),
                    failure: None,
                };
                metrics.kept(at, begun.elapsed(), &contents);
                // Only now: a failed attempt must never cost an older copy.
                let removed = directory.remove_oldest(*keep, &path);
                let bytes = contents.bytes;
                log::info!(bytes = bytes, removed = removed; "the database has been copied to {}", path.display());
                warn_of_secrets(&contents);
                true
            }
            Err(error) => {
                log::error!("backup.directory: the database was not copied: {error}");
                state.lock().failure = Some(error.to_string());
                metrics.failed();
                false
            }
        }
    }

    /// Warns when the last good copy has become old, and again after each interval without a new one.
    async fn warn_of_old(self) {
        let BackupsInner { clock, every, .. } = &*self.0;
        loop {
            // Computed again after each sleep, since copies move it.
            clock.sleep_until(self.old_at()).await;
            // A copy may have been made during the sleep; then the next warning is later.
            if self.freshness() == Freshness::Old {
                log::warn!("backup.directory: {self}");
                clock.sleep_until(clock.now().after(*every)).await;
            }
        }
    }
}

/// Returns the time at which a copy becomes old: two more should have been made by then.
pub fn old_at(copied: Timestamp, every: Duration) -> Timestamp {
    copied.after(2 * every)
}

/// Warns of secrets that cannot be decrypted. The copy is kept: another one would contain the same secrets.
fn warn_of_secrets(contents: &Contents) {
    let secrets = &contents.secrets;
    if secrets.unopenable > 0 {
        log::warn!(
            "{} of {} secrets in the database, and in its copies, need a missing encryption key: {}",
            secrets.unopenable,
            secrets.total,
            secrets.missing_keys.join(", ")
        );
    }
}

impl fmt::Display for Backups {
    /// Writes the time and age class of the last good copy, and the last attempt's error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let freshness = self.freshness();
        let BackupAttempts { last_good, failure } = &*self.0.state.lock();
        match (last_good, freshness) {
            (Some(at), Freshness::Ok) => write!(f, "last good copy at {at}")?,
            (Some(at), Freshness::Old) => write!(f, "last good copy at {at}, which is old")?,
            (None, _) => f.write_str("no good copy yet")?,
        }
        failure
            .iter()
            .try_for_each(|failure| write!(f, "; the last attempt failed: {failure}"))
    }
}
