//! Lets nodes, links and databases of a cluster fail while clients work with it, and checks that it kept its promises.
//!
//! Three nodes use one PostgreSQL, LiveKit's double and receivers of webhooks, all on loopback. A proxy is on every link between
//! them, and a supervisor starts a node again that has ended. Each client sends each request to a random node.
//!
//! ```text
//! clients ──▶ nodes ◀──▶ nodes      each arrow between nodes, database and LiveKit through a proxy
//!    │          │ ╲
//!    │          ▼  ╲──▶ receivers ──▶ checks
//!    ▼     PostgreSQL ──────────────▶ checks
//! LiveKit ◀──▶ nodes
//! ```
//!
//! A run makes rounds of one scenario: a fault, and what follows until one node is active and the others are standbys again.

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

/// What a run does.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The program that is tested.
    pub binary: PathBuf,
    /// The program that replaces it in [`Scenario::Rolling`], such as the next version; by default the same.
    pub next: Option<PathBuf>,
    /// Whether that program knows a further migration in each round.
    pub is_mixed: bool,
    /// How often something fails; by default as often as [`Scenario::rounds`] says.
    pub rounds: Option<u32>,
    /// How long what is stopped or cut stays so; by default as long as [`Scenario::duration`] says.
    pub duration: Option<Duration>,
    /// How many clients send requests at once.
    pub clients: u32,
    /// Whether each node passes requests on to the active one. Otherwise clients call the active node only, as behind a load
    /// balancer that follows `/readyz`.
    pub passes_on: bool,
    /// Whether times count: they mean nothing on a busy machine.
    pub is_timed: bool,
    /// Decides every choice of the clients and of the faults. Runs of one seed differ only in timing.
    pub seed: u64,
}
