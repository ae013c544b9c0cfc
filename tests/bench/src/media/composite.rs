//! A composed recording's effect on packet latency, while the server, ffmpeg and the load share two cores.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::call::{Call, Measurement, Shape};
use super::cores::confine_all;
use super::{Pace, Route, Servers};
use crate::BenchError;
use crate::figure::{Figure, Section, Unit, thousands};
use crate::load::percentile;

/// The meeting: each receives all others in grid size.
const MEETING: Shape = Shape::new(6, 0, Some((640, 360)));
/// Number of shared cores.
const CORES: usize = 2;
const WARM_UP: Duration = Duration::from_secs(4);
/// Time limit for the recording's start and stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measurement with the recording, or without.
#[derive(Default)]
struct Half {
    delays: Vec<u32>,
    server: f64,
    seconds: f64,
    packets: u64,
}

impl Half {
    fn add(&mut self, measured: Measurement) {
        self.server += measured.cpu[0];
        self.seconds += measured.seconds;
        self.packets += measured.count.packets;
        self.delays.extend(measured.count.delays);
    }

    fn delay(&self, percent: f64) -> f64 {
        percentile(&self.delays, percent).map_or(f64::NAN, |micros| f64::from(micros) / 1_000.0)
    }

    fn note(&self) -> String {
        format!(
            "median {:.2} ms; {} packets/s, the server without ffmpeg {:.0} % of a core",
            self.delay(50.0),
            thousands(self.packets as f64 / self.seconds),
            self.server / self.seconds * 100.0
        )
    }
}

/// Measures Conclave, alternately with a recording and without.
pub fn measure(servers: &Servers, pace: Pace) -> Result<Section, BenchError> {
    let _confined = confine_all(CORES)?;
    let mut call = Call::start(&servers.conclave, None, Route::Direct)?;
    call.add_room(MEETING)?;
    let time = Duration::from_secs(pace.choose(8, 15));
    let [mut without, mut with] = [Half::default(), Half::default()];
    for _ in 0..pace.choose(2, 4) {
        without.add(call.measure(WARM_UP, time)?);
        let recording = start(&mut call)?;
        with.add(call.measure(WARM_UP, time)?);
        stop(&mut call, &recording)?;
    }
    let ratio = with.delay(99.0) / without.delay(99.0);
    let figures = vec![
        Figure::new(
            "without a recording, p99",
            without.delay(99.0),
            Unit::Milliseconds,
        )
        .note(without.note()),
        Figure::new(
            "with a recording, p99",
            with.delay(99.0),
            Unit::Milliseconds,
        )
        .note(with.note()),
        Figure::new("with, of without", ratio, Unit::Ratio).under(2.0),
    ];
    Ok(Section {
        title: "Media: latency beside a recording",
        about: "A meeting of 6, alternately with and without a recording as a grid of 1280x720. The server, its \
                ffmpeg processes and the load share two cores. The latency is the forwarding latency, as above.",
        figures,
        curves: Vec::new(),
    })
}

/// Starts recording the room, and returns the recording's path once it is active.
fn start(call: &mut Call) -> Result<String, BenchError> {
    let body = json!({"type": "room_composite", "layout": "grid"});
    let started = call.request("POST /v1/rooms/room-0/recordings", &body)?;
    let path = format!(
        "/v1/recordings/{}",
        started["egress_id"].as_str().ok_or("no id")?
    );
    wait_for(call, &path, "active")?;
    Ok(path)
}

fn stop(call: &mut Call, path: &str) -> Result<(), BenchError> {
    call.request(&format!("POST {path}/stop"), &Value::Null)?;
    wait_for(call, path, "complete")
}

fn wait_for(call: &mut Call, path: &str, status: &str) -> Result<(), BenchError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let recording = call.request(&format!("GET {path}"), &Value::Null)?;
        if recording["status"] == status {
            return Ok(());
        }
        if Instant::now() > end || recording["status"] == "failed" {
            return Err(format!("the recording is not {status}: {recording}").into());
        }
        call.load.run(Duration::from_millis(200))?;
    }
}
