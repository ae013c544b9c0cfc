//! The database file: its mode, its schema, and the settings of the connection that writes.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::migrate;
use crate::error::StoreError;
use crate::options::OlderSchema;

/// Maximum time that a statement waits for another process's lock, such as a command's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of pages in the write-ahead log that triggers a checkpoint, and their size in bytes at 4 KiB each.
const LOG_PAGES: i64 = 4_000;
const LOG_SIZE: i64 = LOG_PAGES * 4_096;

/// Opens the connection that writes, and creates or migrates the file if allowed.
pub(super) fn open_for_writing(
    path: &Path,
    older_schema: OlderSchema,
) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(path)?;
    // The file holds secrets, so its mode must not depend on the umask.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|error| StoreError::Unavailable(error.to_string()))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Before the journal mode is set, which would already change the file.
    let found = migrate::version(&connection)?;
    if older_schema == OlderSchema::Refuse && found < migrate::SCHEMA {
        return Err(StoreError::OlderSchema {
            found,
            known: migrate::SCHEMA,
        });
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // FULL syncs the log at every commit. NORMAL, the usual choice with WAL, could lose acknowledged commits in a power failure.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A batch writes at most a few hundred pages. With rare checkpoints, most fsyncs are sequential writes to the log.
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    // A long read prevents checkpoints, and the log grows. Afterwards it is truncated to its usual size.
    connection.pragma_update(None, "journal_size_limit", LOG_SIZE)?;
    if older_schema == OlderSchema::Migrate {
        migrate::migrate(&mut connection)?;
    }
    // Off during migrations, which is the default: a table may be rebuilt while rows of others refer to it.
    connection.pragma_update(None, "foreign_keys", true)?;
    // A savepoint stores the pages that its job changes. In a temporary file, the default, that caused more writes than the log itself.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // rusqlite's default of 16 is less than the writer uses.
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Path of an open file, and the file's identity.
#[derive(Debug, Clone)]
pub struct FileLocation {
    path: PathBuf,
    id: FileId,
}

/// Identity of a file: device and inode.
type FileId = (u64, u64);

fn id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

impl FileLocation {
    /// Creates the location of the file with this metadata, at this path.
    #[must_use]
    pub fn new(path: PathBuf, metadata: &Metadata) -> Self {
        Self {
            path,
            id: id(metadata),
        }
    }

    /// Returns whether the same file is still at the path. Blocks.
    #[must_use]
    pub fn is_there(&self) -> bool {
        match self.path.metadata() {
            Ok(metadata) => id(&metadata) == self.id,
            // Only these errors mean that the file is gone. Others, such as missing permissions on a directory, prove nothing.
            Err(error) => !matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::StaleNetworkFileHandle
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Sql;

    /// Costs that no other test would notice. `.cargo/config.toml` and [`open_for_writing`] explain them.
    #[test]
    fn sqlite_takes_no_shared_lock_and_keeps_savepoints_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let connection =
            open_for_writing(&dir.path().join("conclave.db"), OlderSchema::Migrate).unwrap();
        let sql = Sql::Sqlite(&connection);
        let options: Vec<String> = sql
            .many("PRAGMA compile_options", &[], |row| {
                row.get("compile_options")
            })
            .unwrap();
        assert!(
            options.iter().any(|option| option == "DEFAULT_MEMSTATUS=0"),
            "{options:?}"
        );
        assert!(
            !options
                .iter()
                .any(|option| option == "ENABLE_MEMORY_MANAGEMENT"),
            "{options:?}"
        );
        assert_eq!(sql.value::<i64>("PRAGMA temp_store", &[]).unwrap(), 2);
    }

    #[test]
    fn the_log_is_cut_after_a_reader_that_took_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("conclave.db");
        let connection = open_for_writing(&path, OlderSchema::Migrate).unwrap();
        connection
            .execute_batch("CREATE TABLE filler (bytes BLOB)")
            .unwrap();
        let reader = Connection::open(&path).unwrap();
        reader
            .execute_batch("BEGIN; SELECT count(*) FROM filler")
            .unwrap();
        reader
            .query_row("SELECT count(*) FROM filler", [], |row| {
                row.get::<_, i64>(0)
            })
            .unwrap();
        let log = || {
            fs::metadata(dir.path().join("conclave.db-wal"))
                .unwrap()
                .len()
        };
        let write = |megabytes: i64| {
            (0..megabytes).for_each(|_| {
                connection
                    .execute("INSERT INTO filler VALUES (randomblob(1048576))", [])
                    .unwrap();
            });
        };
        write(40);
        let limit = u64::try_from(LOG_SIZE).unwrap();
        assert!(log() > 2 * limit, "{}", log());
        reader.execute_batch("COMMIT").unwrap();
        // The first commit copies the log into the file, and the second starts a new log.
        connection
            .execute("INSERT INTO filler VALUES (x'00')", [])
            .unwrap();
        connection
            .execute("INSERT INTO filler VALUES (x'00')", [])
            .unwrap();
        assert!(log() <= limit, "{}", log());
    }
}
