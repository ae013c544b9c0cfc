//! A deliberate change of the media plane's key, which signs room tokens.

use super::nodes::{ClusterState, read};
use super::requests;
use crate::engine::postgres::STATEMENT_LIMIT;
use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::postgres::{PostgresServer, Session};
use crate::sql::values::args;

const REQUIRE: &str = "UPDATE leadership SET media_key_id = ?1 WHERE id = 1";

/// Lets only servers with the media key of this id take over from now on. The active server goes on with the key that it has until it
/// ends. Returns the servers that run; `None` for a database that no server has used. Blocks; must not be called on a thread of a
/// runtime.
///
/// # Errors
/// The database cannot be written.
pub fn require_media_key(
    server: &PostgresServer,
    id: &str,
) -> Result<Option<ClusterState>, StoreError> {
    let session = Session::connect(server, STATEMENT_LIMIT)?;
    if !requests::has_tables(&session)? {
        return Ok(None);
    }
    let mut attempts = 1..requests::ATTEMPTS_AT_ROW;
    loop {
        match Sql::Postgres(&session).change(REQUIRE, args![id]) {
            Err(StoreError::Unavailable(_))
                if attempts.next().is_some() && !session.is_broken() => {}
            Err(error) => return Err(error),
            Ok(_) => return read(&session).map(Some),
        }
    }
}
