//! `failover --binary PATH --count N`: makes the active one of two servers fail, and measures the time until the other writes. Then makes
//! PostgreSQL fail under both.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod outage;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::json;
use test_postgres::Cluster;

use crate::server::Server;

/// Duration of a server's standstill.
const STANDSTILL: Duration = Duration::from_secs(20);

/// Makes the active one of two servers on one database fail, and measures the time until the other writes.
#[derive(Parser)]
struct Arguments {
    /// The program to test.
    #[arg(long)]
    binary: PathBuf,
    /// Number of failures of each kind.
    #[arg(long, default_value_t = 20)]
    count: u32,
    /// Prints the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Killed,
    StoodStill,
    CutOff,
}

impl Failure {
    const ALL: [Self; 3] = [Self::Killed, Self::StoodStill, Self::CutOff];

    const fn name(self) -> &'static str {
        match self {
            Self::Killed => "the active server killed",
            Self::StoodStill => "it stood still for 20 s",
            Self::CutOff => "it was cut off",
        }
    }
}

/// Outcome for one kind of failure.
struct Outcome {
    name: &'static str,
    /// Times until the next write.
    times: Vec<Duration>,
    problems: Vec<String>,
}

impl Outcome {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            times: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn median(&self) -> f64 {
        self.times
            .get(self.times.len() / 2)
            .map_or(0.0, Duration::as_secs_f64)
    }

    fn longest(&self) -> f64 {
        self.times.last().map_or(0.0, Duration::as_secs_f64)
    }
}

fn main() -> ExitCode {
    let Arguments {
        binary,
        count,
        json,
    } = Arguments::parse();
    let binary = std::path::absolute(binary).expect("a path of a program");
    let database = Cluster::shared().database();
    let mut active = Server::spawn(&binary, &database, None);
    active.wait_until_ready();
    let mut outcomes = Vec::new();
    let mut number = 0;
    for failure in Failure::ALL {
        let mut outcome = Outcome::new(failure.name());
        for _ in 0..count {
            number += 1;
            let mut standby = Server::spawn(&binary, &database, Some(&active));
            standby.wait_until_standby();
            let began = Instant::now();
            fail(failure, &mut active);
            standby.wait_until_ready();
            while standby.create_room(&format!("room-{number}")) != Some(201) {
                thread::yield_now();
            }
            outcome.times.push(began.elapsed());
            outcome
                .problems
                .extend(recover(failure, &mut active, began, number));
            if standby.has_room(&late(number)) {
                outcome
                    .problems
                    .push(format!("the server of before has written {}", late(number)));
            }
            active = standby;
        }
        outcome.times.sort_unstable();
        outcomes.push(outcome);
    }
    let standby = Server::spawn(&binary, &database, Some(&active));
    standby.wait_until_standby();
    outcomes.extend(outage::measure(&database, &active, &standby));
    print(&outcomes, json);
    if outcomes.iter().all(|outcome| outcome.problems.is_empty()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns the room in a create request to a replaced server.
fn late(number: u32) -> String {
    format!("late-{number}")
}

fn fail(failure: Failure, active: &mut Server) {
    match failure {
        Failure::Killed => active.kill(),
        Failure::StoodStill => active.signal("STOP"),
        Failure::CutOff => active.proxy().refuse(),
    }
}

/// Resumes the failed server. Returns its violations.
fn recover(failure: Failure, server: &mut Server, began: Instant, number: u32) -> Option<String> {
    match failure {
        Failure::Killed => return None,
        Failure::StoodStill => {
            thread::sleep(STANDSTILL.saturating_sub(began.elapsed()));
            server.signal("CONT");
        }
        Failure::CutOff => {
            let status = server.create_room(&late(number));
            server.proxy().accept();
            if status == Some(201) {
                return Some("a server that was cut off has accepted a write".into());
            }
        }
    }
    // The server may have exited before this.
    let _ = server.create_room(&late(number));
    match server.wait_for_exit() {
        Some(1) => None,
        code => Some(format!("a server that was replaced ended with {code:?}")),
    }
}

fn print(outcomes: &[Outcome], json: bool) {
    if json {
        let of = |outcome: &Outcome| {
            json!({"failure": outcome.name, "count": outcome.times.len(), "median_seconds": outcome.median(),
                "longest_seconds": outcome.longest(), "problems": outcome.problems})
        };
        println!(
            "{}",
            serde_json::Value::from(outcomes.iter().map(of).collect::<Vec<_>>())
        );
        return;
    }
    println!(
        "{:<26} {:>6} {:>10} {:>10}",
        "what fails", "times", "median", "longest"
    );
    for outcome in outcomes {
        let (name, count) = (outcome.name, outcome.times.len());
        println!(
            "{name:<26} {count:>6} {:>8.1} s {:>8.1} s",
            outcome.median(),
            outcome.longest()
        );
        outcome
            .problems
            .iter()
            .for_each(|problem| println!("  {problem}"));
    }
}
