//! The turn to write: a lock beside the database that each process takes around a transaction that writes.
//!
//! SQLite's own lock is not fair: who waits for it looks again after up to 100 ms, so a command could wait for seconds beside a server
//! whose next transaction begins when the last one ends, and the server beside many commands. Here who waits is next: it holds the
//! queue, in which everybody else waits behind it. Both are locks of files, which end with their process. The file of the turn names
//! the one that wrote last, for the log.
//!
//! The turn keeps nothing correct, SQLite does: without it, as if a process stands still that has it, writes go on as they did before.

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

/// How long a transaction waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same once the last one has waited in vain: one who stands still is not waited for each time.
const PATIENCE_AFTER_FAILURE: Duration = Duration::from_millis(50);
/// How often one who waits looks.
const LOOK: Duration = Duration::from_micros(500);
/// The longest time without a line in the log, and the shortest between two lines.
const UNNOTICED: Duration = Duration::from_millis(100);
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// The most bytes of a name.
const NAME_BYTES: usize = 100;

/// What takes turns. One for each connection that writes.
pub(crate) struct WriteTurn {
    database: PathBuf,
    name: String,
    /// Opened with the first turn, so that a process that writes nothing creates nothing; `None` if they cannot be.
    files: OnceCell<Option<Files>>,
    patience: Cell<Duration>,
    log_lines: Throttle,
    /// Set once this process is known to be a server. Who runs a command sees for himself how long it takes.
    is_server: Arc<AtomicBool>,
}

struct Files {
    /// Held by the one that is next.
    queue: File,
    /// Held by the one that writes.
    turn: File,
}

/// A turn. It ends when this is dropped.
pub(crate) struct Turn<'a>(Option<&'a File>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Closing the file would not be enough: a program that is being started has it, too, until it runs.
        if let Some(file) = self.0 {
            let _ = file.unlock();
        }
    }
}

impl WriteTurn {
    /// Takes turns at a database.
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

    /// Waits for the turn. After [`PATIENCE`] the transaction begins without it.
    pub(crate) fn take(&self) -> Turn<'_> {
        let Some(Files { queue, turn }) = self.files.get_or_init(|| self.open()) else {
            return Turn(None);
        };
        let mut wait = Wait {
            turn,
            own: &self.name,
            begun: Instant::now(),
            patience: self.patience.get(),
            before: None,
        };
        let taken = wait.lock(queue) && {
            let taken = wait.lock(turn);
            let _ = queue.unlock();
            taken
        };
        if wait.begun.elapsed() >= UNNOTICED {
            let before = wait.before.unwrap_or_default();
            self.warn(&format!(
                "waited {} ms for its turn, behind {before}",
                wait.begun.elapsed().as_millis()
            ));
        }
        self.patience.set(if taken {
            PATIENCE
        } else {
            PATIENCE_AFTER_FAILURE
        });
        if taken && read_name(turn) != self.name {
            // Only for the log.
            let _ = turn.write_all_at(format!("{:NAME_BYTES$}", self.name).as_bytes(), 0);
        }
        Turn(taken.then_some(turn))
    }

    /// Notes how long a transaction has waited for SQLite's lock. Who takes turns does not hold it.
    pub(crate) fn note_wait_for_sqlite(&self, waited: Duration) {
        if waited >= UNNOTICED {
            let by = "for SQLite's lock, which a program holds that takes no turns, such as sqlite3, or one that stands still";
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
        // Those of another user, for example.
        files
            .inspect_err(|error| log::warn!("writes take no turns with other processes: {error}"))
            .ok()
    }
}

/// A wait for a turn.
struct Wait<'a> {
    turn: &'a File,
    /// The name of the one that waits.
    own: &'a str,
    begun: Instant,
    patience: Duration,
    /// Who had the turn, once that took long.
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
            let waited = self.begun.elapsed();
            // Its own name says only that no other process has written since.
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

/// Names this process by its number and its command. Values of options are left out.
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
        let turn = WriteTurn {
            patience: Cell::new(Duration::ZERO),
            ..WriteTurn::new(database, Arc::default())
        };
        turn.take().0.is_some()
    }

    #[test]
    fn a_turn_is_that_of_one_until_it_ends() {
        let (_dir, database) = turns();
        let first = WriteTurn::new(&database, Arc::default());
        let turn = first.take();
        assert!(!is_free(&database));
        drop(turn);
        assert!(is_free(&database));
    }

    /// Proves R-21.
    #[test]
    fn one_who_waits_is_next_although_the_other_has_no_pause() {
        let (_dir, database) = turns();
        let (begun, ended, others) = (
            AtomicBool::new(false),
            AtomicBool::new(false),
            AtomicUsize::new(0),
        );
        thread::scope(|scope| {
            scope.spawn(|| {
                let busy = WriteTurn::new(&database, Arc::default());
                while !ended.load(Ordering::Relaxed) {
                    let _turn = busy.take();
                    others.fetch_add(1, Ordering::Relaxed);
                    begun.store(true, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(5));
                }
            });
            while !begun.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            let command = WriteTurn::new(&database, Arc::default());
            let before = others.load(Ordering::Relaxed);
            for _ in 0..50 {
                assert!(command.take().0.is_some());
            }
            ended.store(true, Ordering::Relaxed);
            // Each waits for the turn that is under way; it would be most of all turns if it had to meet a gap between two.
            let meanwhile = others.load(Ordering::Relaxed) - before;
            assert!(meanwhile <= 150, "{meanwhile} turns of the other during 50");
        });
    }

    #[test]
    fn the_turn_of_a_process_that_is_killed_is_free() {
        let (_dir, database) = turns();
        drop(WriteTurn::new(&database, Arc::default()).take());
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
        let standing = WriteTurn::new(&database, Arc::default());
        let _turn = standing.take();
        let writer = WriteTurn {
            patience: Cell::new(Duration::from_millis(1)),
            ..WriteTurn::new(&database, Arc::default())
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
        let standing = WriteTurn {
            name: "process 7 (key create)".into(),
            ..WriteTurn::new(&database, Arc::default())
        };
        let _turn = standing.take();
        let writer = WriteTurn::new(&database, Arc::default());
        let Files { queue, turn } = writer.open().unwrap();
        let mut wait = Wait {
            turn: &turn,
            own: &writer.name,
            begun: Instant::now(),
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
