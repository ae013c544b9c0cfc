//! What a file of records contains.

use std::path::Path;

use conclave_model::Timestamp;

use crate::engine::sqlite::backup::read_checked;
use crate::error::StoreError;
use crate::records::rotation::{SecretCount, count_sealed};
use crate::vault::Vault;

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
