//! `crash-test --binary PATH --kills N`: runs the test and prints its findings. Exits non-zero for a broken promise.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use crash_test::{Engine, Options, Report, run};

/// Kills a server at random moments under load, and checks that it kept everything that it had acknowledged.
#[derive(Parser)]
struct Arguments {
    /// The program to test.
    #[arg(long)]
    binary: PathBuf,
    /// Storage of the records: a file, or a PostgreSQL, which is killed alternately with the program.
    #[arg(long, value_enum, default_value_t = Database::Sqlite)]
    database: Database,
    /// Number of kills.
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Number of clients.
    #[arg(long, default_value_t = 6)]
    clients: u32,
    /// Seed for all choices in a run; random by default.
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Database {
    Sqlite,
    Postgres,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let options = Options {
        binary: arguments.binary,
        engine: match arguments.database {
            Database::Sqlite => Engine::Sqlite,
            Database::Postgres => Engine::Postgres,
        },
        kills: arguments.kills,
        clients: arguments.clients,
        uptime: (Duration::from_millis(50), Duration::from_millis(1_500)),
        least_acknowledged: 1,
        seed,
    };
    let started = Instant::now();
    let report = run(&options, |kill| {
        if kill % 10 == 0 {
            eprintln!(
                "{kill} of {} kills, {} s",
                options.kills,
                started.elapsed().as_secs()
            );
        }
    });
    print(&options, &report, started.elapsed());
    if report.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn print(options: &Options, report: &Report, took: Duration) {
    let rows: [(&str, String); 10] = [
        ("seed", options.seed.to_string()),
        ("kills", options.kills.to_string()),
        ("seconds", took.as_secs().to_string()),
        ("requests", report.requests.to_string()),
        ("  acknowledged", report.acknowledged.to_string()),
        ("  unanswered", report.unanswered.to_string()),
        ("rooms", report.rooms.to_string()),
        ("sessions", report.sessions.to_string()),
        (
            "deliveries",
            format!("{}, {} posts", report.deliveries, report.webhooks),
        ),
        ("broken promises", report.violations.len().to_string()),
    ];
    for (name, value) in rows {
        println!("{name:<18}{value}");
    }
    for (action, acknowledged) in &report.actions {
        println!("  {action:<16}{acknowledged}");
    }
    for violation in &report.violations {
        println!("- {violation}");
    }
}
