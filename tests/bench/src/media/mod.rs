//! The benchmark behind `scripts/bench media`: the cost of forwarding, compared with a LiveKit server.
//!
//! The load uses LiveKit's signalling with two peer connections, so it is the same for both servers: [`client`] is one participant,
//! [`load`] drives all of them on one thread, [`call`] is a server with its rooms. Each scenario starts its own servers. The receivers
//! count and do not decode.

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
use crate::{Arguments, BenchError, Output};
use server::Program;

#[derive(Args)]
pub struct Options {
    /// A livekit-server to compare with.
    #[arg(long)]
    livekit_server: Option<PathBuf>,
    /// Scenarios to measure; all by default.
    #[arg(long = "scenario", value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Measure for a shorter time.
    #[arg(long)]
    quick: bool,
    /// Print the results as JSON.
    #[arg(long)]
    pub json: bool,
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

/// The measured programs.
pub struct Servers {
    conclave: Program,
    livekit: Option<Program>,
}

/// Route of a client's media to the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// From its own sockets, over UDP.
    Direct,
    /// Through Conclave's TURN server, over UDP.
    TurnByUdp,
    /// Through the TURN server, over TCP at the API's port.
    TurnByTcp,
    /// Through the TURN server, over TLS.
    TurnByTls,
}

/// Duration of a measurement.
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
    /// Returns the value for this pace.
    fn choose<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// Runs the benchmark, and returns whether every result is within its limit.
pub fn run(arguments: &Arguments, options: &Options) -> Result<bool, BenchError> {
    let pace = if options.quick {
        Pace::Quick
    } else {
        Pace::Full
    };
    let is_wanted =
        |scenario: &Scenario| options.scenarios.is_empty() || options.scenarios.contains(scenario);
    let output = if options.json {
        Output::Later
    } else {
        Output::Tables
    };
    let measure =
        |scenario: Scenario, conclave: &Path| scenario.measure(&options.servers(conclave), pace);
    let scenarios = SCENARIOS.into_iter().filter(is_wanted);
    let (sections, passes) = arguments.measure_all(scenarios, output, measure)?;
    if options.json {
        println!(
            "{:#}",
            Value::from_iter(sections.iter().map(Section::to_json))
        );
    }
    Ok(passes)
}

impl Options {
    fn servers(&self, conclave: &Path) -> Servers {
        Servers {
            conclave: Program::Conclave(conclave.to_owned()),
            livekit: self.livekit_server.clone().map(Program::Livekit),
        }
    }
}

impl Scenario {
    fn measure(self, servers: &Servers, pace: Pace) -> Result<Section, BenchError> {
        match self {
            Self::Cost => cost::measure(servers, pace),
            Self::Variants => variants::measure(servers, pace),
            Self::Latency => latency::measure(servers),
            Self::Capacity => capacity::measure(servers, pace),
            Self::Composite => composite::measure(servers, pace),
            Self::Joins => joins::measure(servers, pace),
        }
    }
}
