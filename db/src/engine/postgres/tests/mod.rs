//! What both engines must have in common, and what only a server can tell of a text.

mod indexes;
mod schema;
mod texts;

use std::time::Duration;

use conclave_model::Secret;
use test_postgres::{Cluster, Database};

use super::migrate;
use crate::OlderSchema;
use crate::sql::postgres::{PostgresServer, Session};

/// Calls `check` with a database that has the schema, and a session with it. Does nothing where no server is installed, unless the
/// run is about it.
fn with_schema(check: impl FnOnce(&Database<'_>, &Session)) {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let server = PostgresServer::new(&Secret::new(database.url()), None).unwrap();
    migrate::prepare(&server, OlderSchema::Migrate).unwrap();
    check(
        &database,
        &Session::connect(&server, Duration::from_secs(60)).unwrap(),
    );
}
