//! Lists in a project with a million sessions and a million deliveries, and their cost growth.

use std::path::Path;

use crate::BenchError;
use crate::connection::request;
use crate::figure::{Curve, Figure, Section, Unit};
use crate::fill::Filler;
use crate::load::{self, Sample};
use crate::process::Process;

/// Session count at each measurement; the delivery count is the same.
const SIZES: [u32; 5] = [1, 100, 10_000, 100_000, 1_000_000];
/// Sequential requests per kind.
const REQUESTS: usize = 200;
/// Unmeasured requests before them.
const WARM_UP: usize = 5;
/// Rows skipped by the deep pages.
const OFFSETS: [u32; 6] = [0, 100, 1_000, 10_000, 100_000, 500_000];

/// Lists, each with a combination of filters.
const LISTS: [(&str, &str); 12] = [
    ("sessions", "/v1/sessions"),
    ("sessions of a room", "/v1/sessions?room=past-17"),
    ("sessions of an identity", "/v1/sessions?identity=person-7"),
    ("sessions of a role", "/v1/sessions?role=role-1"),
    (
        "sessions of an identity in a room",
        "/v1/sessions?room=past-17&identity=person-7",
    ),
    ("open sessions", "/v1/sessions?active=true"),
    ("closed sessions", "/v1/sessions?active=false"),
    ("deliveries", "/v1/webhook-deliveries"),
    ("failed deliveries", "/v1/webhook-deliveries?status=failed"),
    (
        "deliveries of a type",
        "/v1/webhook-deliveries?event_type=room.started",
    ),
    (
        "failed deliveries of a type",
        "/v1/webhook-deliveries?event_type=room.started&status=failed",
    ),
    (
        "pending deliveries",
        "/v1/webhook-deliveries?status=pending",
    ),
];

/// Lists with a plotted growth.
const DRAWN: [&str; 4] = [
    "sessions",
    "sessions of an identity",
    "deliveries",
    "failed deliveries",
];

/// Measures at each size, on one data directory that is filled in between.
pub async fn measure(conclave: &Path, scratch: &Path) -> Result<Section, BenchError> {
    let data = scratch.join("data");
    Filler::create(conclave, &data).await?.past_rooms()?;

    let mut lines: Vec<(&str, Vec<(f64, f64)>)> = DRAWN.map(|name| (name, Vec::new())).into();
    let (mut figures, mut deep, mut filled) = (Vec::new(), Vec::new(), 0);
    for size in SIZES {
        let filler = Filler::open(&data)?;
        filler.sessions(filled, size)?;
        filler.deliveries(filled, size)?;
        drop(filler);
        filled = size;
        let server = Process::conclave(conclave, &data)?;
        for (name, points) in &mut lines {
            let (_, path) = LISTS
                .iter()
                .find(|(list, _)| list == name)
                .ok_or("no such list")?;
            points.push((f64::from(size), page(&server, path).await?.percentile(50.0)));
        }
        if size == SIZES[SIZES.len() - 1] {
            figures = all_lists(&server).await?;
            deep = deep_pages(&server).await?;
        }
        server.stop()?;
    }
    Ok(Section {
        title: "Lists of 1,000,000 sessions and 1,000,000 deliveries",
        about: "The first page of each list: p99 of 200 sequential requests.",
        figures,
        curves: vec![
            Curve {
                title: "Lists by the number of rows",
                size: "rows",
                unit: "ms",
                lines,
            },
            Curve {
                title: "Deep pages by the rows that they skip",
                size: "offset",
                unit: "ms",
                lines: deep,
            },
        ],
    })
}

async fn all_lists(server: &Process) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (name, path) in LISTS {
        let sample = page(server, path).await?;
        let p99 = Figure::new(
            format!("{name}, p99"),
            sample.percentile(99.0),
            Unit::Milliseconds,
        )
        .under(5.0);
        figures.push(p99.note(format!("median {:.2} ms", sample.percentile(50.0))));
    }
    Ok(figures)
}

async fn deep_pages(server: &Process) -> Result<Vec<(&'static str, Vec<(f64, f64)>)>, BenchError> {
    let mut lines = Vec::new();
    for (name, path) in [LISTS[0], LISTS[7]] {
        let mut points = Vec::new();
        for offset in OFFSETS {
            let sample = some(server, &format!("{path}?offset={offset}"), 10).await?;
            points.push((f64::from(offset.max(1)), sample.percentile(50.0)));
        }
        lines.push((name, points));
    }
    Ok(lines)
}

async fn page(server: &Process, path: &str) -> Result<Sample, BenchError> {
    some(server, path, REQUESTS).await
}
async fn some(server: &Process, path: &str, requests: usize) -> Result<Sample, BenchError> {
    let request = request(&server.key(), &format!("GET {path}"), "");
    load::one_after_the_other(&server.api(), (WARM_UP, requests), |_| request.clone()).await
}
