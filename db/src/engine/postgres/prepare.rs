//! `conclave migrate`: what can be done for a coming schema before a server of it is the active one.

use super::health::refuse_pooler;
use super::indexes::{self, UpcomingIndex};
use super::migrate;
use crate::error::StoreError;
use crate::sql::postgres::{PostgresServer, Session};

/// Builds the indexes of the schemas that a database does not have yet, while servers of the older version use it. What a build that was
/// stopped has left is dropped and built again. Blocks; must not be called on a thread of a runtime.
///
/// # Errors
/// The database cannot be used, has a newer schema, or another process builds them.
pub fn build_indexes(server: &PostgresServer) -> Result<Vec<UpcomingIndex>, StoreError> {
    refuse_pooler(server)?;
    let session = Session::connect(server, migrate::STATEMENT_LIMIT)?;
    migrate::check_server(&session)?;
    let found = migrate::version(&session)?;
    if found == 0 {
        // The first server creates the tables with their indexes.
        return Ok(Vec::new());
    }
    // A build waits for the transactions that run, one after another.
    session.batch("SET lock_timeout = 0")?;
    let migrations: Vec<_> = (1i64..).zip(migrate::migrations()).collect();
    let lacking = migrations.iter().filter(|(number, _)| *number > found);
    indexes::build(&session, lacking.map(|(_, text)| text.as_ref()))
}
