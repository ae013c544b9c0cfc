//! Write lock: a file lock beside the database that each process takes around a transaction that writes.
//!
//! SQLite's own lock is not fair. A waiting process retries after up to 100 ms, so a command could wait for seconds beside a server whose
//! transactions follow each other without a pause, and the server beside many commands. Here, one waiting process is next: it has the lock
//! of the file `-queue`, for which all others wait. The file `-turn` is locked during the transaction, and names the process that
//! wrote last, for the log. The system releases both locks when their process exits.
//!
//! Correctness does not depend on these locks, only on SQLite's. Without them, or while a stopped process has one, writes continue as they
//! would with SQLite alone.

use std::cell::{Cell, OnceCell};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use conclave_model::Throttle;
use log::Level;

/// Maximum wait before a transaction.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum wait after a previous wait has failed: a stopped process must not delay every transaction.
const PATIENCE_AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Interval at which a waiting process polls. File locks have no wait with a timeout.
const LOOK: Duration = Duration::from_micros(500);
/// Shortest wait that is logged, and the shortest time between two log lines.
const UNNOTICED: Duration = Duration::from_millis(100);
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum size of a process name in the lock file.
const NAME_BYTES: usize = 100;

/// One connection's write lock.
pub(crate) struct WriteLock {
    database: PathBuf,
    name: String,
    /// Opened at the first use, so that a process that never writes creates no files; `None` if they cannot be opened.
    files: OnceCell<Option<Files>>,
    patience: Cell<Duration>,
    log_lines: Throttle,
    /// Set once this process is known to be a server. A command logs its waits at debug level: its operator sees how long it takes.
    is_server: Arc<AtomicBool>,
}

struct Files {
    /// Locked by the process that is next.
    queue: File,
    /// Locked by the process that writes.
    turn: File,
}

/// Acquired lock. It is released on drop.
pub(crate) struct WriteLockGuard<'a>(Option<&'a File>);

impl Drop for WriteLockGuard<'_> {
    fn drop(&mut self) {
        // Closing the file would not be enough: a child process between fork and exec shares the lock.
        if let Some(file) = self.0 {
            let _ = file.unlock();
        }
    }
}

impl WriteLock {
    /// Creates the lock of a database. Opens nothing yet.
    pub(crate) fn new(database: &Path, is_server: Arc<AtomicBool>) -> Self {
        let (database, name) = (database.to_owned(), name(std::env::args_os()));
        Self {
            database,
            name,
            files: OnceCell::new(),
            patience: Cell::new(PATIENCE),
            log_lines: Throttle::new(LOG_INTERVAL),
            is_server,
        }
    }

    /// Waits for the lock. After [`PATIENCE`], the transaction starts without it.
    pub(crate) fn take(&self) -> WriteLockGuard<'_> {
        let Some(Files { queue, turn }) = self.files.get_or_init(|| self.open()) else {
            return WriteLockGuard(None);
        };
        let mut wait = Wait {
            turn,
            own: &self.name,
            started: Instant::now(),
            patience: self.patience.get(),
            before: None,
        };
        let taken = wait.lock(queue) && {
            let taken = wait.lock(turn);
            // Released as soon as this process has the write lock, so that another process can become the next one meanwhile.
            let _ = queue.unlock();
            taken
        };
        if wait.started.elapsed() >= UNNOTICED {
            let before = wait.before.unwrap_or_default();
            self.warn(&format!(
                "waited {} ms for the write lock, behind {before}",
                wait.started.elapsed().as_millis()
            ));
        }
        // A wait that succeeds restores the full patience.
        self.patience.set(if taken {
            PATIENCE
        } else {
            PATIENCE_AFTER_FAILURE
        });
        if taken && read_name(turn) != self.name {
            // Only for the log, so an error is ignored. Padded with spaces, which overwrites a longer name.
            let _ = turn.write_all_at(format!("{:NAME_BYTES$}", self.name).as_bytes(), 0);
        }
        WriteLockGuard(taken.then_some(turn))
    }

    /// Logs a long wait for SQLite's own lock, which means that it was held by a program without this write lock.
    pub(crate) fn record_wait_for_sqlite(&self, waited: Duration) {
        if waited >= UNNOTICED {
            let by = "for SQLite's own lock, held by another program, such as sqlite3, or by a stopped process";
            self.warn(&format!("waited {} ms {by}", waited.as_millis()));
        }
    }

    fn warn(&self, what: &str) {
        if self.log_lines.allow(Instant::now()) {
            let level = if self.is_server.load(Ordering::Relaxed) {
                Level::Warn
            } else {
                Level::Debug
            };
            log::log!(level, "a batch of writes has {what}");
        }
    }

    fn open(&self) -> Option<Files> {
        let open = |ending: &str| {
            let mut path = OsString::from(&self.database);
            path.push(ending);
            // Not truncated: another process may be reading the name. Private, as the database is.
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
        };
        let files = open("-queue").and_then(|queue| {
            Ok(Files {
                queue,
                turn: open("-turn")?,
            })
        });
        // The files belong to another user, for example. Writes continue without this lock.
        files
            .inspect_err(|error| {
                log::warn!("the write lock between processes is unavailable: {error}");
            })
            .ok()
    }
}

/// Wait for a lock.
struct Wait<'a> {
    turn: &'a File,
    /// This process's name.
    own: &'a str,
    started: Instant,
    patience: Duration,
    /// Name of the process that had the lock, once the wait is long.
    before: Option<String>,
}

impl Wait<'_> {
    /// Waits for a lock. Returns whether it was taken in time.
    fn lock(&mut self, file: &File) -> bool {
        loop {
            match file.try_lock() {
                Ok(()) => return true,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(_)) => return false,
            }
            let waited = self.started.elapsed();
            // Read only after half of the logged time, since a shorter wait needs no name. Read again while it is this process's own
            // name: the process that has the lock has not written its name yet.
            if waited >= UNNOTICED / 2
                && self
                    .before
                    .as_deref()
                    .is_none_or(|before| before == self.own)
            {
                self.before = Some(read_name(self.turn));
            }
            if waited >= self.patience {
                return false;
            }
            thread::sleep(LOOK);
        }
    }
}

fn read_name(turn: &File) -> String {
    let mut name = [0; NAME_BYTES];
    let read = turn.read_at(&mut name, 0).unwrap_or_default();
    String::from_utf8_lossy(name.get(..read).unwrap_or_default())
        .trim_end()
        .to_owned()
}

/// Names this process by its id and its command. Values of options are left out, since they may be secrets.
fn name(arguments: impl Iterator<Item = OsString>) -> String {
    let mut words = Vec::new();
    let mut is_value = false;
    for argument in arguments
        .skip(1)
        .filter_map(|argument| argument.into_string().ok())
    {
        let is_option = argument.starts_with('-');
        let is_word = !is_option && !is_value;
        is_value = is_option && !argument.contains('=');
        words.extend(is_word.then_some(argument));
    }
    // A command has at most two words, such as `key create`; what follows may be an id or a secret.
    let is_command = |word: &&String| {
        word.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    let command: Vec<&str> = words
        .iter()
        .take_while(is_command)
        .take(2)
        .map(String::as_str)
        .collect();
    let mut name = format!("process {} ({})", std::process::id(), command.join(" "));
    name.truncate(NAME_BYTES);
    name
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn turns() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("test.db");
        (dir, database)
    }

    fn is_free(database: &Path) -> bool {
        let turn = WriteLock {
            patience: Cell::new(Duration::ZERO),
            ..WriteLock::new(database, Arc::default())
        };
        turn.take().0.is_some()
    }

    #[test]
    fn a_turn_is_that_of_one_until_it_ends() {
        let (_dir, database) = turns();
        let first = WriteLock::new(&database, Arc::default());
        let turn = first.take();
        assert!(!is_free(&database));
        drop(turn);
        assert!(is_free(&database));
    }

    /// Proves R-21.
    #[test]
    fn one_who_waits_is_next_although_the_other_has_no_pause() {
        let (_dir, database) = turns();
        let (started, ended, others) = (
            AtomicBool::new(false),
            AtomicBool::new(false),
            AtomicUsize::new(0),
        );
        thread::scope(|scope| {
            scope.spawn(|| {
                let busy = WriteLock::new(&database, Arc::default());
                while !ended.load(Ordering::Relaxed) {
                    let _turn = busy.take();
                    others.fetch_add(1, Ordering::Relaxed);
                    started.store(true, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(5));
                }
            });
            while !started.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            let command = WriteLock::new(&database, Arc::default());
            // The other's transactions during each wait; none for a wait in vain.
            let mut meanwhile: Vec<_> = (0..50)
                .map(|_| {
                    let before = others.load(Ordering::Relaxed);
                    let turn = command.take();
                    turn.0
                        .is_some()
                        .then(|| others.load(Ordering::Relaxed) - before)
                })
                .collect();
            ended.store(true, Ordering::Relaxed);
            meanwhile.sort_unstable();
            assert!(meanwhile[0].is_some(), "{meanwhile:?}");
            // A wait lasts for the other's current transaction, and for more only if this thread was delayed before it. If it had to
            // meet a gap between two transactions, it would last for many of them.
            assert!(
                meanwhile[25] <= Some(3),
                "transactions of the other during each: {meanwhile:?}"
            );
        });
    }

    #[test]
    fn the_turn_of_a_process_that_is_killed_is_free() {
        let (_dir, database) = turns();
        drop(WriteLock::new(&database, Arc::default()).take());
        let mut holder = Command::new("sh");
        holder
            .args([
                "-c",
                "exec 9<>\"$0-turn\" && flock 9 && echo locked && exec sleep 60",
            ])
            .arg(&database);
        let mut holder = holder.stdout(Stdio::piped()).spawn().unwrap();
        holder
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut [0; 7])
            .unwrap();
        assert!(!is_free(&database));
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(is_free(&database));
    }

    #[test]
    fn one_who_stands_still_is_waited_for_only_once() {
        let (_dir, database) = turns();
        let standing = WriteLock::new(&database, Arc::default());
        let _turn = standing.take();
        let writer = WriteLock {
            patience: Cell::new(Duration::from_millis(1)),
            ..WriteLock::new(&database, Arc::default())
        };
        assert!(writer.take().0.is_none());
        assert_eq!(writer.patience.get(), PATIENCE_AFTER_FAILURE);
        drop(_turn);
        assert!(writer.take().0.is_some());
        assert_eq!(writer.patience.get(), PATIENCE);
    }

    #[test]
    fn one_who_waits_learns_whose_turn_it_is() {
        let (_dir, database) = turns();
        let standing = WriteLock {
            name: "process 7 (key create)".into(),
            ..WriteLock::new(&database, Arc::default())
        };
        let _turn = standing.take();
        let writer = WriteLock::new(&database, Arc::default());
        let Files { queue, turn } = writer.open().unwrap();
        let mut wait = Wait {
            turn: &turn,
            own: &writer.name,
            started: Instant::now(),
            patience: UNNOTICED,
            before: None,
        };
        assert!(wait.lock(&queue) && !wait.lock(&turn));
        assert_eq!(wait.before.as_deref(), Some("process 7 (key create)"));
    }

    #[test]
    fn a_process_is_named_by_its_command_without_values() {
        let named = |line: &str| name(line.split(' ').map(OsString::from));
        let id = std::process::id();
        for (line, command) in [
            ("conclave --data /srv serve", "serve"),
            (
                "conclave key create prj_0123456789ab --name secret",
                "key create",
            ),
            (
                "conclave --config=/a/b project create --name acme",
                "project create",
            ),
            ("conclave", ""),
        ] {
            assert_eq!(named(line), format!("process {id} ({command})"));
        }
    }
}
