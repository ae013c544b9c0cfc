//! PostgreSQL for tests, and test operations on records with either engine ([`Records`]). A test binary starts one throw-away server at
//! first use ([`Cluster::shared`]), each test gets its own database ([`Database`]), and a [`Proxy`] simulates network faults. None of them
//! needs root.
//!
//! ```no_run
//! let Some(cluster) = test_postgres::Cluster::installed() else { return };
//! let database = cluster.database();
//! let proxy = test_postgres::Proxy::start(cluster.address());
//! let url = database.url_at(proxy.address());
//! ```
//!
//! `TEST_DATABASE=postgres` runs the suites that support both engines on PostgreSQL ([`Engine`]). The variable's name does not start with
//! `CONCLAVE_`, because the program refuses unknown variables with that prefix.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cluster;
mod database;
mod engine;
mod owner;
mod pooler;
mod programs;
mod proxy;
mod records;
mod session;
mod tls;
mod watchdog;

use std::thread;
use std::time::{Duration, Instant};

pub use cluster::{Cluster, ClusterOptions, PASSWORD};
pub use database::Database;
pub use engine::Engine;
pub use pooler::Pooler;
pub use programs::{OLDEST_VERSION, Programs};
pub use proxy::{Cut, Proxy};
pub use records::{Lock, Records};
pub use session::Session;
pub use tls::write_certificates;

/// Time limit for starting or stopping a server. Far longer than needed on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Waits until `holds`, for [`WAIT_LIMIT`] at most, and returns whether it does.
fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if started.elapsed() > WAIT_LIMIT {
            return false;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
}
