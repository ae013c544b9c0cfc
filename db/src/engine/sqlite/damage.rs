//! Detection of damage in the file, on a separate thread, after a server has started or when it cannot start because of the damage.
//!
//! `PRAGMA quick_check` reads each table and its indexes once. Damage is logged and makes the server unready, and the writing connection
//! refuses statements that read or change a damaged table. The rest continues. The writer must never meet a damaged page: SQLite would roll
//! back the transaction, and with it the jobs of other projects.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::{Mutex, RwLock};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, InterruptHandle, OpenFlags};

use crate::error::StoreError;
use crate::sql::Sql;

/// The thread's scheduling priority, below everything else in the process.
const NICENESS: i32 = 15;
const TABLES: &str =
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name";

/// Table that defines all others.
const SCHEMA_TABLE: &str = "sqlite_schema";

/// Checks a whole file, and returns the names of its damaged tables, separated by commas.
///
/// # Errors
/// If the file cannot be read for another reason.
pub(crate) fn find(path: &Path) -> Result<String, StoreError> {
    let damage = Damage::default();
    look(path, &damage, &AtomicBool::default(), &Mutex::default())?;
    Ok(damage.tables())
}

/// Damaged tables of a file. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Damage(Arc<DamagedTables>);

#[derive(Default)]
struct DamagedTables {
    count: AtomicUsize,
    tables: RwLock<BTreeSet<String>>,
}

impl Damage {
    /// Returns how many tables are known to be damaged, which never decreases.
    pub(super) fn count(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// Fails if a table is known to be damaged.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.count() == 0 {
            return Ok(());
        }
        Err(StoreError::Damaged(self.tables()))
    }

    /// Returns the names of the damaged tables, separated by commas.
    fn tables(&self) -> String {
        self.0
            .tables
            .read()
            .iter()
            .cloned()
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn add(&self, table: &str, problem: &str) {
        log::error!(
            "the table {table} is damaged: {problem}; it is no longer written: stop the server, keep the file, and restore a \
             backup (conclave restore)"
        );
        let mut tables = self.0.tables.write();
        // The count last: the writer compares only the count, and must find the table when it does.
        tables.insert(table.to_owned());
        self.0.count.store(tables.len(), Ordering::Release);
    }

    /// Makes a connection refuse to read or change damaged tables, by statements that are already prepared and by new ones.
    pub(super) fn guard(&self, connection: &Connection) -> Result<(), StoreError> {
        let found = Arc::clone(&self.0);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            // SQLite reports the table of an indexed read as a read of the table, so indexes need no case of their own.
            let (AuthAction::Insert { table_name }
            | AuthAction::Delete { table_name }
            | AuthAction::Read { table_name, .. }
            | AuthAction::Update { table_name, .. }) = context.action
            else {
                return Authorization::Allow;
            };
            if found.tables.read().contains(table_name) {
                Authorization::Deny
            } else {
                Authorization::Allow
            }
        }))?;
        Ok(())
    }
}

/// Thread that checks for damage. It stops when this is dropped.
pub(crate) struct DamageCheck {
    is_over: Arc<AtomicBool>,
    running: Arc<Mutex<Option<InterruptHandle>>>,
    thread: Option<JoinHandle<()>>,
}

impl DamageCheck {
    /// Starts the check.
    pub(crate) fn start(path: &Path, damage: Damage) -> Result<Self, StoreError> {
        let (is_over, running) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Option<InterruptHandle>>>::default(),
        );
        let (path, over, of_thread): (PathBuf, _, _) =
            (path.into(), Arc::clone(&is_over), Arc::clone(&running));
        let run = move || {
            // For this thread only, as Linux has it. If the system refuses, the thread keeps the usual priority.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            if let Err(error) = look(&path, &damage, &over, &of_thread) {
                log::warn!("checking the database file failed: {error}");
            }
            *of_thread.lock() = None;
        };
        let thread = thread::Builder::new().name("store-check".into()).spawn(run);
        let thread = thread.map_err(|error| {
            StoreError::Unavailable(format!("a thread cannot be started: {error}"))
        })?;
        Ok(Self {
            is_over,
            running,
            thread: Some(thread),
        })
    }
}

impl Drop for DamageCheck {
    fn drop(&mut self) {
        // The flag first: an interrupted check reports an error, and the thread then finds the flag.
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(running) = &*self.running.lock() {
            running.interrupt();
        }
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn look(
    path: &Path,
    damage: &Damage,
    is_over: &AtomicBool,
    running: &Mutex<Option<InterruptHandle>>,
) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    *running.lock() = Some(connection.get_interrupt_handle());
    let sql = Sql::Sqlite(&connection);
    let tables: Vec<String> = match sql.many(TABLES, &[], |row| row.get("name")) {
        // The list of tables is itself in a damaged page, so no further table can be found.
        Err(StoreError::Damaged(problem)) => {
            damage.add(SCHEMA_TABLE, &problem);
            return Ok(());
        }
        read => read?,
    };
    for table in tables {
        // One table per statement: a longer read transaction would keep the write-ahead log growing.
        let check = format!("PRAGMA quick_check(\"{}\")", table.replace('"', "\"\""));
        let found = connection.query_row(&check, [], |row| row.get::<_, String>(0));
        if is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        match found {
            // quick_check returns one row per problem. One is enough to name the table.
            Ok(found) if found == "ok" => {}
            Ok(problem) => damage.add(&table, &problem.replace('\n', " ")),
            Err(error) => match StoreError::from(error) {
                StoreError::Damaged(problem) => damage.add(&table, &problem),
                other => return Err(other),
            },
        }
    }
    Ok(())
}
