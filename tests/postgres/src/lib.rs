//! PostgreSQL for tests, and what tests do to records on either engine ([`Records`]). A test binary starts one throw-away server at its first use ([`Cluster::shared`]), each test gets a
//! database of its own ([`Database`]), and a [`Proxy`] makes the faults of a network. Nothing of it needs root.
//!
//! ```no_run
//! let Some(cluster) = test_postgres::Cluster::installed() else { return };
//! let database = cluster.database();
//! let proxy = test_postgres::Proxy::start(cluster.address());
//! let url = database.url_at(proxy.address());
//! ```
//!
//! `TEST_DATABASE=postgres` runs the suites that know both engines on PostgreSQL ([`Engine`]). The variable has no name with
//! `CONCLAVE_`, because the program refuses such variables that are no setting.

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

/// How long a server may take to start or to end. Far longer than needed on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Waits until `holds`, for [`WAIT_LIMIT`] at most, and tells whether it does.
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
