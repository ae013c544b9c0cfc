//! Requests, compared with a bare actix-web handler that returns the same bytes.

use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::BenchError;
use crate::connection::{Connection, request};
use crate::figure::{Figure, Section, Unit, thousands};
use crate::load::{self, Sample};
use crate::process::Process;

/// The load's connections.
const CONNECTIONS: usize = 64;
/// Measured time per round.
const ROUND: Duration = Duration::from_secs(3);
/// Rounds for each server and operation, alternately.
const ROUNDS: usize = 3;

/// A kind of request. `{n}` in its body is replaced by a number that is never repeated.
struct Operation {
    name: &'static str,
    head: &'static str,
    body: &'static str,
    /// Minimum ratio to the bare handler.
    ratio: f64,
}

const OPERATIONS: [Operation; 3] = [
    Operation {
        name: "get_room",
        head: "GET /v1/rooms/bench",
        body: "",
        ratio: 0.6,
    },
    Operation {
        name: "create_token",
        head: "POST /v1/tokens",
        body: r#"{"room":"bench","identity":"user{n}","role":"host"}"#,
        ratio: 0.45,
    },
    Operation {
        name: "create_room",
        head: "POST /v1/rooms",
        body: r#"{"name":"room{n}"}"#,
        ratio: 0.25,
    },
];

/// Measures all operations.
pub async fn measure(conclave: &Path, scratch: &Path) -> Result<Section, BenchError> {
    let server = Process::conclave(conclave, &scratch.join("data"))?;
    let bare = start_bare(&server, scratch).await?;
    let mut figures = Vec::new();
    for operation in &OPERATIONS {
        let (ceiling, seen) = alternate(operation, &bare, &server).await?;
        let ratio = Figure::new(operation.name, seen.rate() / ceiling.rate(), Unit::Ratio)
            .at_least(operation.ratio);
        let rates = format!(
            "{} of {} requests/s",
            thousands(seen.rate()),
            thousands(ceiling.rate())
        );
        figures.push(ratio.note(rates));
        let p99 = Figure::new(
            format!("{}, p99", operation.name),
            seen.percentile(99.0),
            Unit::Milliseconds,
        );
        let p99 = p99.note(format!("median {:.2} ms", seen.percentile(50.0)));
        figures.push(if operation.name == "create_room" {
            p99.under(20.0)
        } else {
            p99
        });
    }
    Ok(Section {
        title: "Requests",
        about: "64 connections, each waiting for a response before it sends the next request. The ceiling is \
                an actix-web handler that returns the same bytes, with as many threads. A created room is on disk \
                before its response.",
        figures,
        curves: Vec::new(),
    })
}

/// Starts the bare server with the real server's responses.
async fn start_bare(server: &Process, scratch: &Path) -> Result<Process, BenchError> {
    let (mut api, key) = (Connection::open(&server.api()).await?, server.key());
    let room = api
        .json(&key, "POST /v1/rooms", &json!({"name": "bench"}))
        .await?;
    let token = json!({"room": "bench", "identity": "a", "role": "host"});
    let token: Value = api.json(&key, "POST /v1/tokens", &token).await?;
    let file = scratch.join("responses.json");
    std::fs::write(
        &file,
        json!({"get_room": room, "create_room": room, "create_token": token}).to_string(),
    )?;
    Process::start(
        Command::new(std::env::current_exe()?)
            .arg("--bare")
            .arg(&file),
    )
}

/// Returns the bare and the real server's results.
async fn alternate(
    operation: &'static Operation,
    bare: &Process,
    server: &Process,
) -> Result<(Sample, Sample), BenchError> {
    let (numbers, key) = (Cell::new(0_u64), server.key());
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let from = numbers.get();
        let ceiling = round(operation, &bare.api(), &key, from).await?;
        rounds.push((ceiling, round(operation, &server.api(), &key, from).await?));
        numbers.set(from + 10_000_000);
    }
    let joined = rounds
        .into_iter()
        .reduce(|(bare, real), (more_bare, more)| (bare.and(more_bare), real.and(more)));
    joined.ok_or_else(|| "no round".into())
}

async fn round(
    operation: &'static Operation,
    address: &str,
    key: &str,
    from: u64,
) -> Result<Sample, BenchError> {
    let (number, key) = (Cell::new(from), key.to_owned());
    let next = move |_| {
        number.set(number.get() + 1);
        request(
            &key,
            operation.head,
            &operation.body.replace("{n}", &number.get().to_string()),
        )
    };
    load::run(address, CONNECTIONS, ROUND, next).await
}
