//! The benchmark behind `scripts/bench server`: the server's work, compared with the same work on the same machine without the server.
//!
//! Each ceiling is a bare program that does only this work. Both are measured alternately, and only the ratio counts: absolute numbers
//! differ between machines and from minute to minute. All traffic is on loopback, and times and numbers are bounded.
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
use report::Report;
use test_postgres::{OLDEST_VERSION, Programs};

/// An error in the benchmark itself.
type BenchError = Box<dyn std::error::Error + Send + Sync>;

/// Compares the server's performance with bare programs, or with another version of the server.
#[derive(Parser)]
struct Arguments {
    /// The server to measure.
    #[arg(long, default_value = "conclave")]
    conclave: PathBuf,
    /// Parts to measure; all by default.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Directory for a report: `performance.json`, and `performance.md` with its plots, written from it.
    #[arg(long, global = true)]
    report: Option<PathBuf>,
    /// Removes this machine's tables for other commits from the report, which is refused otherwise.
    #[arg(long, global = true, requires = "report")]
    discard_other_commits: bool,
    /// Serves only the responses in this file: the ceiling for the requests.
    #[arg(long, hide = true)]
    bare: Option<PathBuf>,
    #[command(flatten)]
    against: Against,
    #[command(subcommand)]
    test: Option<Test>,
}

/// The program's tests besides benchmarks.
#[derive(Subcommand)]
enum Test {
    /// Sends ten times the server's capacity in requests, and measures the effect on another project.
    Overload(overload::Options),
    /// Attacks the server as an unauthenticated client or a participant, and measures the effect on another project.
    Attacks(attacks::Options),
    /// Forwards generated media, and compares the cost with a LiveKit server's.
    Media(media::Options),
}

/// A benchmark part.
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
    arguments.check_comparison()?;
    match &arguments.test {
        Some(Test::Overload(options)) => return overload::run(&arguments.conclave, options),
        Some(Test::Attacks(options)) => return attacks::run(&arguments.conclave, options),
        Some(Test::Media(options)) => return media::run(arguments, options),
        None => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let parts = PARTS.into_iter().filter(|part| {
        (arguments.only.is_empty() || arguments.only.contains(part)) && part.is_possible()
    });
    let measure = |part: Part, conclave: &Path| runtime.block_on(measure(part, conclave));
    let (_, passes) = arguments.measure_all(parts, Output::Tables, measure)?;
    Ok(passes)
}

/// When a part's results are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Tables,
    /// The caller prints all of them at the end.
    Later,
}

impl Arguments {
    /// Rejects options that a comparison of two programs does not support.
    fn check_comparison(&self) -> Result<(), BenchError> {
        if self.against.is_pointless() {
            return Err("--tolerance is for a comparison, by --against or --record".into());
        }
        if !self.against.is_wanted() {
            return Ok(());
        }
        match &self.test {
            Some(Test::Overload(_) | Test::Attacks(_)) => {
                Err("--against is for benchmarks, whose figures can be compared".into())
            }
            Some(Test::Media(options)) if options.json => Err(
                "--json writes the figures of one program, so it does not go with --against".into(),
            ),
            _ if self.report.is_some() => {
                Err("--report describes one program, so it does not go with --against".into())
            }
            _ => Ok(()),
        }
    }

    /// Measures one part after the other, including the other program if one was given, and writes the report if requested. Returns the
    /// results, and whether each is within its limit.
    fn measure_all<T: Copy>(
        &self,
        parts: impl Iterator<Item = T>,
        output: Output,
        mut measure: impl FnMut(T, &Path) -> Result<Section, BenchError>,
    ) -> Result<(Vec<Section>, bool), BenchError> {
        let mut report = (self.report.as_ref())
            .map(|directory| Report::open(directory, &self.against.commit))
            .transpose()?;
        if let Some(report) = &mut report {
            report.require_one_commit(self.discard_other_commits)?;
        }
        let (mut sections, mut passes) = (Vec::new(), true);
        for part in parts {
            let outcome = self
                .against
                .measure(&self.conclave, |program| measure(part, program))?;
            if output == Output::Tables {
                print!("{}", outcome.text);
            }
            self.against.write_record(&outcome)?;
            passes &= outcome.passes;
            sections.push(outcome.section);
        }
        if let Some(report) = report {
            report.add(&sections)?;
        }
        Ok((sections, passes))
    }
}

impl Part {
    /// Returns whether the machine meets the part's requirements, and prints a message if not.
    fn is_possible(self) -> bool {
        let is_possible = self != Self::Postgres || Programs::find().is_some();
        if !is_possible {
            println!("skipped: PostgreSQL {OLDEST_VERSION} or newer is not installed");
        }
        is_possible
    }
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_of_every_command_fit_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_a_comparison_cannot_do_is_refused() {
        for words in [
            &["bench", "--against", "old", "--report", "docs"][..],
            &["bench", "overload", "--against", "old"],
            &["bench", "attacks", "--against", "old"],
            &["bench", "media", "--against", "old", "--json"],
        ] {
            let arguments = Arguments::parse_from(words);
            let refused = run(&arguments).unwrap_err().to_string();
            assert!(refused.contains("--against"), "{words:?}: {refused}");
        }
        let arguments = Arguments::parse_from(["bench", "media", "--tolerance", "3"]);
        let refused = run(&arguments).unwrap_err().to_string();
        assert!(refused.contains("--record"), "{refused}");
    }
}
