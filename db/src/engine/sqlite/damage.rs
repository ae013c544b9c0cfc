//! Damage of the file, which a thread looks for beside a server that has just started, or that cannot start because of it.
//!
//! `PRAGMA quick_check` reads each table and its indexes once. What it finds is logged and makes the server unready, and the connection
//! that writes refuses statements that change or read a damaged table. All else goes on: SQLite rolls a transaction back in which a
//! damaged page was met, and with it the jobs of other projects that share it, so the writer must not meet one.

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

/// The priority of the thread, below everything else in the process.
const NICENESS: i32 = 15;
const TABLES: &str =
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name";

/// The table with the definitions of all others.
const SCHEMA_TABLE: &str = "sqlite_schema";

/// Reads a whole file, and returns the names of its damaged tables, separated by commas.
///
/// # Errors
/// It cannot be read for another reason.
pub(crate) fn find(path: &Path) -> Result<String, StoreError> {
    let damage = Damage::default();
    look(path, &damage, &AtomicBool::default(), &Mutex::default())?;
    Ok(damage.tables())
}

/// The damaged tables of a file. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Damage(Arc<Found>);

#[derive(Default)]
struct Found {
    count: AtomicUsize,
    tables: RwLock<BTreeSet<String>>,
}

impl Damage {
    /// The number of tables that are known to be damaged. It grows only.
    pub(super) fn count(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// Fails if a table is damaged.
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
            "the table {table} is damaged: {problem}; it is not written any more: stop the server, keep the file, and restore a \
             backup (conclave restore)"
        );
        let mut tables = self.0.tables.write();
        tables.insert(table.to_owned());
        self.0.count.store(tables.len(), Ordering::Release);
    }

    /// Makes a connection refuse to change or read the tables that are damaged, by all statements that it has prepared so far and those to
    /// come.
    pub(super) fn guard(&self, connection: &Connection) -> Result<(), StoreError> {
        let found = Arc::clone(&self.0);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
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

/// The thread that looks for damage. It ends when this is dropped.
pub(crate) struct DamageCheck {
    is_over: Arc<AtomicBool>,
    running: Arc<Mutex<Option<InterruptHandle>>>,
    thread: Option<JoinHandle<()>>,
}

impl DamageCheck {
    /// Starts to look for damage.
    pub(crate) fn start(path: &Path, damage: Damage) -> Result<Self, StoreError> {
        let (is_over, running) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Option<InterruptHandle>>>::default(),
        );
        let (path, over, of_thread): (PathBuf, _, _) =
            (path.into(), Arc::clone(&is_over), Arc::clone(&running));
        let run = move || {
            // Of this thread alone. It keeps the usual priority if the system refuses.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            if let Err(error) = look(&path, &damage, &over, &of_thread) {
                log::warn!("the file of the database could not be checked: {error}");
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
        Err(StoreError::Damaged(problem)) => {
            damage.add(SCHEMA_TABLE, &problem);
            return Ok(());
        }
        read => read?,
    };
    for table in tables {
        // One table at a time, so that the log does not grow for longer.
        let check = format!("PRAGMA quick_check(\"{}\")", table.replace('"', "\"\""));
        let found = connection.query_row(&check, [], |row| row.get::<_, String>(0));
        if is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        match found {
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
