//! Files of records that no server uses: opening them, and what they contain.

use std::path::{Path, PathBuf};

use conclave_model::Timestamp;
use rusqlite::{Connection, OpenFlags};

use super::export::migrated_copy;
use super::{health, migrate};
use crate::backup::Contents;
use crate::error::StoreError;
use crate::rotation;
use crate::sql::Sql;
use crate::vault::Vault;

/// The last instant that a record has of a change, also of a command's; the heartbeat of a server is a minute old at most.
const LAST_CHANGE: &str = "SELECT max(at) FROM (
    SELECT max(at) AS at FROM heartbeat
    UNION ALL SELECT max(created_at) FROM events
    UNION ALL SELECT max(created_at) FROM rooms
    UNION ALL SELECT max(created_at) FROM projects
    UNION ALL SELECT max(created_at) FROM api_keys
    UNION ALL SELECT max(coalesce(left_at, joined_at)) FROM sessions)";

/// Opens a file of records for reading, and leaves nothing beside it.
pub(crate) fn open_to_read(file: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let beside = |suffix: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    // A write-ahead log has changes that the file lacks, and its index shows that another process may write to it.
    if beside("-wal").exists() || beside("-shm").exists() {
        return Ok(Connection::open_with_flags(file, flags)?);
    }
    // Nobody writes to it. SQLite would otherwise create a log and its index, and fail where it cannot.
    let name = file.to_str().ok_or_else(|| StoreError::Unavailable(format!("{}: is not UTF-8", file.display())))?;
    let name = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    // A relative path that begins with two slashes would name a host.
    let uri = format!("file:{name}?immutable=1");
    Ok(Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?)
}

/// Checks a whole file for damage and counts what it contains. Of an older version's file, what a migrated copy of it contains.
pub(crate) fn inspect(file: &Path, vault: &Vault) -> Result<Contents, StoreError> {
    let connection = open_to_read(file)?;
    let schema = health::check(&connection)?;
    if schema == 0 {
        return Err(StoreError::Unavailable(format!("{} is not a database of Conclave", file.display())));
    }
    let migrated = (schema < migrate::SCHEMA).then(|| migrated_copy(&connection, file)).transpose()?;
    let sql = Sql::Sqlite(migrated.as_ref().map_or(&connection, |(copy, _)| copy));
    let count = |text: &str| sql.value::<i64>(text, &[]).map(i64::unsigned_abs);
    Ok(Contents {
        schema,
        bytes: file.metadata().map_or(0, |metadata| metadata.len()),
        projects: count("SELECT count(*) FROM projects")?,
        rooms: count("SELECT count(*) FROM rooms")?,
        open_rooms: count("SELECT count(*) FROM rooms WHERE status = 'open'")?,
        last_change: sql.value::<Option<Timestamp>>(LAST_CHANGE, &[])?,
        secrets: rotation::count_sealed(sql, vault)?,
    })
}
