//! Makes a cluster's nodes, links and databases fail while clients use it, and checks that it kept its promises.
//!
//! Three nodes use one PostgreSQL, LiveKit's double and webhook receivers, all on loopback. A proxy is on every link between them, and a
//! supervisor restarts exited nodes. Each client sends each request to a random node.
//!
//! ```text
//! clients ──▶ nodes ◀──▶ nodes      each arrow between nodes, database and LiveKit through a proxy
//!    │          │ ╲
//!    │          ▼  ╲──▶ receivers ──▶ checks
//!    ▼     PostgreSQL ──────────────▶ checks
//! LiveKit ◀──▶ nodes
//! ```
//!
//! A run repeats rounds of one scenario: a fault, and the time until one node is active and the others are standbys again.

mod audit;
mod balancer;
mod connections;
mod cost;
mod faults;
mod installation;
mod late;
mod load;
mod node;
mod phases;
mod postgres;
mod process;
mod report;
mod round;
mod run;
mod scenario;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

pub use audit::Writer;
pub use connections::{HeldConnections, hold_connections};
pub use cost::{StandbyCost, measure};
pub use late::LateRequest;
pub use report::ClusterReport;
pub use round::{Round, median};
pub use run::run;
pub use scenario::{Limit, Scenario, Takeovers, Tolerance};

/// Options for a run.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The program that is tested.
    pub binary: PathBuf,
    /// The replacement program in [`Scenario::Rolling`], such as the next version; the same by default.
    pub next: Option<PathBuf>,
    /// Whether that program has a further migration in each round.
    pub is_mixed: bool,
    /// Faults in the run; [`Scenario::rounds`] by default.
    pub rounds: Option<u32>,
    /// Duration of a stop or a cut; [`Scenario::duration`] by default.
    pub duration: Option<Duration>,
    /// Concurrent clients.
    pub clients: u32,
    /// Whether each node forwards requests to the active one. Otherwise clients call only the active node, as behind a load balancer that
    /// follows `/readyz`.
    pub passes_on: bool,
    /// Whether times are judged: they mean nothing on a busy machine.
    pub is_timed: bool,
    /// Seed for all choices of the clients and the faults. Runs with one seed differ only in timing.
    pub seed: u64,
}
