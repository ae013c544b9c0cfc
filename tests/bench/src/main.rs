//! The benchmark that `scripts/bench server` runs: what the server does, compared with what the same machine does without it.
//!
//! Each ceiling is a bare program that does the work and nothing else. Both are measured alternately, and what counts is the
//! ratio: absolute numbers differ between machines and from minute to minute. All traffic is on loopback, and times and numbers
//! are bounded.
//!
//! Data flows one way: a measurement ([`requests`], [`joins`], [`deliveries`], [`lists`], [`rooms`], [`console`], [`postgres`]) returns a
//! [`Section`](figure::Section), which is printed as a table and, for a report, written as Markdown with plots.

mod attacks;
mod bare;
mod comparison;
mod connection;
mod console;
mod deliveries;
mod figure;
mod fill;
mod import;
mod joins;
mod lists;
mod load;
mod media;
mod metrics;
mod overload;
mod participant;
mod plot;
mod postgres;
mod process;
mod report;
mod requests;
mod rooms;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use comparison::Against;
use figure::Section;
use test_postgres::{OLDEST_VERSION, Programs};

/// Any failure of the benchmark itself.
type BenchError = Box<dyn std::error::Error + Send + Sync>;

/// Compares the server's performance with that of bare programs, or of another version of the server.
#[derive(Parser)]
struct Arguments {
    /// The server to measure.
    #[arg(long, default_value = "conclave")]
    conclave: PathBuf,
    /// What to measure; everything if absent.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// A directory for a report: `performance.md` and its plots.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Serves the responses in this file and nothing else: the ceiling of the requests.
    #[arg(long, hide = true)]
    bare: Option<PathBuf>,
    #[command(flatten)]
    against: Against,
    #[command(subcommand)]
    test: Option<Test>,
}

/// What the program does besides benchmarks.
#[derive(Subcommand)]
enum Test {
    /// Asks for ten times what the server serves, and measures what another project notices.
    Overload(overload::Options),
    /// Attacks the server as a stranger or a participant, and measures what another project notices.
    Attacks(attacks::Options),
    /// Forwards generated media, and compares the cost with that of a LiveKit server.
    Media(media::Options),
}

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Requests,
    Joins,
    Deliveries,
    Rooms,
    Lists,
    Console,
    Postgres,
}

const PARTS: [Part; 7] = [
    Part::Requests,
    Part::Joins,
    Part::Deliveries,
    Part::Rooms,
    Part::Lists,
    Part::Console,
    Part::Postgres,
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether every result is within its limit.
fn run(arguments: &Arguments) -> Result<bool, BenchError> {
    if let Some(responses) = &arguments.bare {
        bare::serve(responses)?;
        return Ok(true);
    }
    match &arguments.test {
        Some(Test::Overload(options)) => return overload::run(&arguments.conclave, options),
        Some(Test::Attacks(options)) => return attacks::run(&arguments.conclave, options),
        Some(Test::Media(options)) => {
            return media::run(arguments, options);
        }
        None => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut sections, mut passes) = (Vec::new(), true);
    for part in PARTS
        .into_iter()
        .filter(|part| arguments.only.is_empty() || arguments.only.contains(part))
    {
        if part == Part::Postgres && Programs::find().is_none() {
            println!("skipped: PostgreSQL {OLDEST_VERSION} or newer is not installed");
            continue;
        }
        let outcome = arguments.against.measure(&arguments.conclave, |program| {
            runtime.block_on(measure(part, program))
        })?;
        print!("{}", outcome.text);
        passes &= outcome.passes;
        sections.push(outcome.section);
    }
    if let Some(directory) = &arguments.report {
        report::write(directory, &sections)?;
    }
    Ok(passes)
}

async fn measure(part: Part, conclave: &Path) -> Result<Section, BenchError> {
    let scratch = tempfile::tempdir()?;
    match part {
        Part::Requests => requests::measure(conclave, scratch.path()).await,
        Part::Joins => joins::measure(conclave, scratch.path()).await,
        Part::Deliveries => deliveries::measure(conclave, scratch.path()).await,
        Part::Rooms => rooms::measure(conclave, scratch.path()).await,
        Part::Lists => lists::measure(conclave, scratch.path()).await,
        Part::Console => console::measure(conclave, scratch.path()).await,
        Part::Postgres => postgres::measure(conclave, scratch.path()).await,
    }
}
