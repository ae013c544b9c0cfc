//! `cluster --binary PATH [SCENARIO]...`: makes parts of a cluster fail under load, and prints the findings. Exits non-zero for a broken
//! promise.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use crash_test::cluster::{
    ClusterOptions, ClusterReport, HeldConnections, Round, Scenario, StandbyCost, hold_connections,
    measure, run,
};
use serde_json::json;

/// Scenarios without faults: the cost of standbys, and the cost of connections through a standby.
const STANDBY: &str = "standby";
const CONNECTIONS: &str = "connections";

/// Makes a cluster's nodes, links and databases fail while clients use it, and checks that it kept its promises.
#[derive(Parser)]
struct Arguments {
    /// The program to test.
    #[arg(long)]
    binary: PathBuf,
    /// Replacement program in `rolling`, such as the next version; the same by default.
    #[arg(long)]
    next: Option<PathBuf>,
    /// Adds a further migration to the replacement program in each round of `rolling`, so that two versions run at once. It needs the
    /// feature `faults`, which the program built by `cargo test` has.
    #[arg(long)]
    mixed: bool,
    /// Scenarios: kill, kill-standby, pause, cut, postgres, rolling, load; or standby, which measures a standby's cost, or connections, as
    /// many through one standby as open files allow. All by default.
    scenarios: Vec<String>,
    /// Rounds per scenario; by default the number in docs/reliability.md.
    #[arg(long)]
    rounds: Option<u32>,
    /// Duration of a stop or a cut, or of the standby measurement, in seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Number of clients.
    #[arg(long, default_value_t = 12)]
    clients: u32,
    /// Clients call only the active node, as behind a load balancer that follows `/readyz`; nodes do not forward.
    #[arg(long)]
    active_only: bool,
    /// Prints times without judging them: they mean nothing on a busy machine or without optimization.
    #[arg(long)]
    untimed: bool,
    /// Seed for all choices in a run; random by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Prints the result as JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (scenarios, measured) = match chosen(&arguments.scenarios) {
        Ok(chosen) => chosen,
        Err(unknown) => {
            eprintln!(
                "there is no scenario {unknown}: must be one of {}",
                names().join(", ")
            );
            return ExitCode::from(2);
        }
    };
    let options = ClusterOptions {
        binary: arguments.binary,
        next: arguments.next,
        is_mixed: arguments.mixed,
        rounds: arguments.rounds,
        duration: arguments.seconds.map(Duration::from_secs),
        clients: arguments.clients,
        passes_on: !arguments.active_only,
        is_timed: !arguments.untimed,
        seed: arguments.seed.unwrap_or_else(|| fastrand::u64(..)),
    };
    eprintln!("seed {}", options.seed);
    let costs = if measured.contains(&STANDBY) {
        measure(&options)
    } else {
        Vec::new()
    };
    let is_held = options.passes_on && measured.contains(&CONNECTIONS);
    let held = if is_held {
        hold_connections(&options).into()
    } else {
        Vec::new()
    };
    let reports: Vec<_> = scenarios
        .into_iter()
        .map(|scenario| run_one(scenario, &options))
        .collect();
    let over = costs
        .iter()
        .flat_map(|cost| cost.violations(options.is_timed));
    let over: Vec<_> = over
        .chain(
            held.iter()
                .flat_map(|held| held.violations(options.is_timed)),
        )
        .collect();
    if arguments.json {
        let reports: Vec<_> = reports.iter().map(ClusterReport::to_json).collect();
        let costs: Vec<_> = costs.iter().map(StandbyCost::to_json).collect();
        let held: Vec<_> = held.iter().map(HeldConnections::to_json).collect();
        let seed = options.seed;
        println!(
            "{}",
            json!({"seed": seed, "scenarios": reports, "standbys": costs, "connections": held, "violations": over})
        );
    } else {
        print(&reports, &costs);
        held.iter().for_each(|held| println!("{}", held.text()));
        over.iter().for_each(|violation| println!("- {violation}"));
    }
    let kept = over.is_empty() && reports.iter().all(|report| report.violations.is_empty());
    if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn names() -> Vec<&'static str> {
    Scenario::ALL
        .iter()
        .map(|scenario| scenario.name())
        .chain(["cut", "postgres", STANDBY, CONNECTIONS])
        .collect()
}

/// Returns the scenarios and measurements for these names, or the unknown name. `cut` stands for all scenarios whose names start with it.
fn chosen(names: &[String]) -> Result<(Vec<Scenario>, Vec<&str>), &str> {
    if names.is_empty() {
        return Ok((Scenario::ALL.into(), vec![STANDBY, CONNECTIONS]));
    }
    let (measured, names): (Vec<_>, Vec<_>) = names
        .iter()
        .map(String::as_str)
        .partition(|name| [STANDBY, CONNECTIONS].contains(name));
    let mut scenarios = Vec::new();
    for name in names {
        let is_meant = |scenario: &Scenario| {
            let is_group = ["cut", "postgres"].contains(&name);
            scenario.name() == name || is_group && scenario.name().starts_with(name)
        };
        let found: Vec<_> = Scenario::ALL.into_iter().filter(is_meant).collect();
        if found.is_empty() {
            return Err(name);
        }
        scenarios.extend(found);
    }
    Ok((scenarios, measured))
}

fn run_one(scenario: Scenario, options: &ClusterOptions) -> ClusterReport {
    let began = Instant::now();
    let name = scenario.name();
    let rounds = options.rounds.unwrap_or_else(|| scenario.rounds());
    let report = run(scenario, options, |round: &Round, requests| {
        let after = round.writes_after.map_or_else(
            || "no change succeeded".to_owned(),
            |after| format!("changes after {:.1} s", after.as_secs_f64()),
        );
        let (before, now) = round.epochs;
        let whole = (round.ended - round.began).as_secs_f64();
        eprintln!(
            "[{:4} s] {name} {} of {rounds}: {after}, whole after {whole:.1} s, epoch {before} to {now}, {requests} requests",
            began.elapsed().as_secs(),
            round.number
        );
    });
    eprintln!(
        "[{:4} s] {name}: {} broken promises",
        began.elapsed().as_secs(),
        report.violations.len()
    );
    report
}

fn print(reports: &[ClusterReport], costs: &[StandbyCost]) {
    if !reports.is_empty() {
        println!(
            "{:<17} {:>6} {:>8} {:>8} {:>9} {:>7} {:>8} {:>7}",
            "scenario", "rounds", "median", "longest", "requests", "failed", "p99", "broken"
        );
    }
    for report in reports {
        println!(
            "{:<17} {:>6} {:>6.1} s {:>6.1} s {:>9} {:>7} {:>6.2} s {:>7}",
            report.scenario.name(),
            report.rounds,
            report.median().as_secs_f64(),
            report.longest().as_secs_f64(),
            report.requests,
            report.failed,
            report.slowest.as_secs_f64(),
            report.violations.len()
        );
        report
            .violations
            .iter()
            .for_each(|violation| println!("- {violation}"));
    }
    for cost in costs {
        println!(
            "standby {}: {} sessions, {} KiB, {:.2} % of a core",
            cost.node,
            cost.sessions,
            cost.memory,
            cost.cpu * 100.0
        );
    }
}
