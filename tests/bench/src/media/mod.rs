//! The benchmark that `scripts/bench media` runs: what forwarding costs, compared with a LiveKit server.
//!
//! The load speaks LiveKit's signalling with two peer connections, so it is the same for both servers: [`client`] is one
//! participant, [`load`] drives all of them on one thread, [`call`] is a server with its rooms. Each scenario starts its own
//! servers. The receivers count and do not decode.

mod call;
mod capacity;
pub mod client;
mod composite;
mod connection;
mod cores;
mod cost;
mod datagrams;
mod joins;
mod latency;
pub mod load;
mod payload;
mod received;
mod relay;
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "it is made for tests, which use more of it"
)]
#[path = "../../../../media/turn/tests/support/requests.rs"]
pub mod requests;
mod server;
pub mod signalling;
mod source;
mod stalls;
mod tls;
mod variants;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::figure::Section;
use crate::{BenchError, report};
use server::Program;

#[derive(Args)]
pub struct Options {
    /// A livekit-server to compare with.
    #[arg(long)]
    livekit_server: Option<PathBuf>,
    /// What to measure; everything if absent.
    #[arg(long = "scenario", value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Measure for a shorter time.
    #[arg(long)]
    quick: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    Cost,
    Variants,
    Latency,
    Capacity,
    Composite,
    Joins,
}

const SCENARIOS: [Scenario; 6] = [
    Scenario::Cost,
    Scenario::Variants,
    Scenario::Latency,
    Scenario::Capacity,
    Scenario::Composite,
    Scenario::Joins,
];

/// The programs that are measured.
pub struct Servers {
    conclave: Program,
    livekit: Option<Program>,
}

/// How the media of a client reaches the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// From its own sockets, by UDP.
    Direct,
    /// By the TURN server in Conclave, to which it sends by UDP.
    TurnByUdp,
    /// The same, by TCP at the port of the API.
    TurnByTcp,
    /// The same, by TLS.
    TurnByTls,
}

/// How much time a measurement takes.
#[derive(Clone, Copy)]
pub enum Pace {
    Quick,
    Full,
}

impl Servers {
    fn programs(&self) -> Vec<&Program> {
        std::iter::once(&self.conclave)
            .chain(&self.livekit)
            .collect()
    }
}

impl Pace {
    /// Returns the value that is meant for this pace.
    fn choose<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// Runs the benchmark, and returns whether every result is within its limit.
pub fn run(conclave: &Path, report: Option<&Path>, options: &Options) -> Result<bool, BenchError> {
    let servers = Servers {
        conclave: Program::Conclave(conclave.to_owned()),
        livekit: options.livekit_server.clone().map(Program::Livekit),
    };
    let pace = if options.quick {
        Pace::Quick
    } else {
        Pace::Full
    };
    let is_wanted =
        |scenario: &Scenario| options.scenarios.is_empty() || options.scenarios.contains(scenario);
    let mut sections = Vec::new();
    for scenario in SCENARIOS.into_iter().filter(is_wanted) {
        let section = match scenario {
            Scenario::Cost => cost::measure(&servers, pace)?,
            Scenario::Variants => variants::measure(&servers, pace)?,
            Scenario::Latency => latency::measure(&servers)?,
            Scenario::Capacity => capacity::measure(&servers, pace)?,
            Scenario::Composite => composite::measure(&servers, pace)?,
            Scenario::Joins => joins::measure(&servers, pace)?,
        };
        if !options.json {
            print!("{}", section.text());
        }
        sections.push(section);
    }
    if options.json {
        println!(
            "{:#}",
            Value::from_iter(sections.iter().map(Section::to_json))
        );
    }
    if let Some(directory) = report {
        report::write(directory, &sections)?;
    }
    Ok(sections.iter().all(Section::passes))
}
