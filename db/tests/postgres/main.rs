//! Tests for PostgreSQL only: round trips, commits whose reply is lost, and a server's epoch.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod epoch;
mod round_trips;
mod tls;
mod undone;

use std::net::SocketAddr;

use conclave_db::{
    Location, OlderSchema, PostgresOptions, PostgresServer, Store, StoreMetrics, StoreOptions,
    Vault,
};
use conclave_model::Secret;
use prometheus::Registry;
use test_postgres::{Cluster, Database};

/// Store in a database of its own.
struct Records {
    store: Store,
    metrics: Registry,
}

/// Opens a store at the address of a server or a proxy. With an epoch, as a server.
fn open(database: &Database<'_>, address: SocketAddr, epoch: Option<i64>) -> Records {
    let server = PostgresServer::new(&Secret::new(database.url_at(address)), None).unwrap();
    let metrics = Registry::new();
    let store = Store::open(StoreOptions {
        location: Location::Server(PostgresOptions {
            server,
            lanes: 2,
            readers: 4,
            epoch,
        }),
        older_schema: OlderSchema::Migrate,
        clock: support::clock(),
        vault: Vault::open(None, &Secret::new("media")).unwrap(),
        on_commit: Box::new(|_| {}),
        readers: 1,
        metrics: StoreMetrics::new(&metrics).unwrap(),
    });
    Records {
        store: store.unwrap(),
        metrics,
    }
}

/// This program's server, unless there is none and the run is not for PostgreSQL.
fn cluster() -> Option<&'static Cluster> {
    Cluster::installed()
}

impl Records {
    /// Returns the number of times that writes have waited for replies.
    fn round_trips(&self) -> u64 {
        let families = self.metrics.gather();
        let found = families
            .iter()
            .find(|family| family.name() == "conclave_store_write_round_trips_total");
        let number = found.unwrap().get_metric()[0].get_counter().get_value();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small count"
        )]
        let number = number as u64;
        number
    }
}
