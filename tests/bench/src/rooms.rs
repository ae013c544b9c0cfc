//! Cost of open rooms: memory, idle CPU, server start, and their project's requests.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::BenchError;
use crate::connection::{Connection, request};
use crate::figure::{Curve, Figure, Section, Unit};
use crate::fill::Filler;
use crate::load;
use crate::process::Process;

/// Number of open rooms at each measurement.
const SIZES: [u32; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
/// Sequential requests per kind.
const REQUESTS: usize = 300;
/// Unmeasured requests before the measured ones.
const WARM_UP: usize = 20;
/// Duration for measuring idle CPU.
const IDLE: Duration = Duration::from_secs(10);

/// Requests with measured growth. `{n}` is replaced by a number that is never repeated.
const GROWING: [(&str, &str, &str); 5] = [
    ("get_room", "GET /v1/rooms/bench", ""),
    ("create_room", "POST /v1/rooms", r#"{"name":"new{n}"}"#),
    ("list_rooms", "GET /v1/rooms?limit=20", ""),
    ("get_plan", "GET /v1/plan", ""),
    ("get_usage", "GET /v1/usage", ""),
];

/// Measures at each number of open rooms, on one data directory that is filled in between.
pub async fn measure(conclave: &Path, scratch: &Path) -> Result<Section, BenchError> {
    let data = scratch.join("data");
    let server = Process::conclave(conclave, &data)?;
    let mut connection = Connection::open(&server.api()).await?;
    connection
        .json(
            &server.key(),
            "POST /v1/rooms",
            &json!({"name": "bench", "empty_timeout_seconds": 36_000}),
        )
        .await?;
    let empty = settled_memory(&server).await?;
    server.stop()?;

    let mut lines: Vec<(&str, Vec<(f64, f64)>)> =
        GROWING.map(|(name, ..)| (name, Vec::new())).into();
    let (mut figures, mut filled) = (Vec::new(), 1);
    for (round, size) in SIZES.into_iter().enumerate() {
        Filler::open(&data)?.open_rooms(size.saturating_sub(filled))?;
        filled = filled.max(size);
        let (server, ready) = start(conclave, &data).await?;
        if size == SIZES[SIZES.len() - 1] {
            figures = at_rest(&server, (ready, empty), size).await?;
        }
        for (line, (_, head, body)) in lines.iter_mut().zip(GROWING) {
            let key = server.key();
            let next = |number| {
                request(
                    &key,
                    head,
                    &body.replace("{n}", &format!("-{round}-{number}")),
                )
            };
            let sample =
                load::one_after_the_other(&server.api(), (WARM_UP, REQUESTS), next).await?;
            line.1.push((f64::from(size), sample.percentile(50.0)));
        }
        server.stop()?;
    }
    for name in ["get_plan", "get_usage"] {
        let last = lines
            .iter()
            .find(|line| line.0 == name)
            .and_then(|line| line.1.last())
            .ok_or("no measurement")?;
        figures.push(Figure::new(format!("{name}, median"), last.1, Unit::Milliseconds).under(1.0));
    }
    Ok(Section {
        title: "100,000 open rooms",
        about: "Open, empty rooms in one project. The curves show medians of sequential requests.",
        figures,
        curves: vec![Curve {
            title: "Requests by the number of open rooms",
            size: "open rooms",
            unit: "ms",
            lines,
        }],
    })
}

/// Starts the server. Also returns the time until the first response.
async fn start(conclave: &Path, data: &Path) -> Result<(Process, Duration), BenchError> {
    let begun = Instant::now();
    let server = Process::conclave(conclave, data)?;
    Connection::open(&server.api())
        .await?
        .exchange(&request(&server.key(), "GET /v1/plan", ""))
        .await?;
    let ready = begun.elapsed();
    Ok((server, ready))
}

/// Measures the cost of idle rooms.
async fn at_rest(
    server: &Process,
    (ready, empty): (Duration, f64),
    size: u32,
) -> Result<Vec<Figure>, BenchError> {
    let memory = settled_memory(server).await?;
    let (before, begun) = (server.cpu()?, Instant::now());
    tokio::time::sleep(IDLE).await;
    let idle = (server.cpu()? - before) / begun.elapsed().as_secs_f64() * 100.0;
    Ok(vec![
        Figure::new(
            "start to the first response",
            ready.as_secs_f64(),
            Unit::Seconds,
        )
        .under(1.0),
        Figure::new(
            "memory for each",
            (memory - empty) / f64::from(size),
            Unit::KibiBytes,
        )
        .under(1.5)
        .note(format!("{:.0} MiB in all", memory / 1024.0)),
        Figure::new("idle CPU", idle, Unit::Percent)
            .under(0.5)
            .note("of one core"),
    ])
}

/// Waits until resident memory has stopped falling, and returns it in KiB.
async fn settled_memory(server: &Process) -> Result<f64, BenchError> {
    let mut memory = server.resident()?;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = server.resident()?;
        if now >= memory {
            return Ok(now);
        }
        memory = now;
    }
}
