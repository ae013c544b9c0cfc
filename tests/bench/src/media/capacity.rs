//! Large calls on all cores, shared with the load: packet loss, and memory per participant.

use std::time::Duration;

use super::call::{Call, Measurement, Shape};
use super::server::Program;
use super::{Pace, Route, Servers};
use crate::BenchError;
use crate::figure::{Figure, Section, Unit, thousands};

/// The calls: a webinar where all see the best layer, and a meeting with grid tiles. Each with the limit for the memory per
/// participant in KiB.
const CALLS: [(&str, Shape, f64); 2] = [
    ("1 to 500", Shape::new(1, 500, None), 250.0),
    (
        "20 by 20",
        Shape::new(20, 0, Some((384, 216))),
        1.5 * 1024.0,
    ),
];
const WARM_UP: Duration = Duration::from_secs(5);

/// A server's results in one call.
struct Outcome {
    measured: Measurement,
    /// Lost packets, except those dropped at the load's own sockets.
    lost: u64,
    /// Bitrate per receiver, in kbit/s.
    kilobits: f64,
    /// Memory per participant, in KiB.
    memory: f64,
}

/// Measures both servers, or Conclave alone.
pub fn measure(servers: &Servers, pace: Pace) -> Result<Section, BenchError> {
    let mut figures = Vec::new();
    for (name, shape, memory_limit) in CALLS {
        let own = run(&servers.conclave, shape, pace)?;
        let other = servers
            .livekit
            .as_ref()
            .map(|livekit| run(livekit, shape, pace))
            .transpose()?;
        figures.extend(compare(name, memory_limit, &own, other.as_ref()));
    }
    Ok(Section {
        title: "Media: large calls",
        about: "One room, with server and load on the same cores. A packet counts as lost if neither it nor a \
                retransmission arrived, unless the load's own sockets dropped it. The calls are one publisher to 500 \
                subscribers who request its best layer (1,700 kbit/s), and 20 participants who see each other in tiles \
                of 384x216. LiveKit is measured with the same load.",
        figures,
        curves: Vec::new(),
    })
}

fn run(program: &Program, shape: Shape, pace: Pace) -> Result<Outcome, BenchError> {
    let mut call = Call::start(program, None, Route::Direct)?;
    first_call(&mut call)?;
    let before = call.server.resident()?;
    call.add_room(shape)?;
    let measured = call.measure(WARM_UP, Duration::from_secs(pace.choose(10, 30)))?;
    let [of_server, of_load] = measured.dropped;
    let receivers = if shape.subscribers > 0 {
        shape.subscribers
    } else {
        shape.publishers
    };
    Ok(Outcome {
        lost: measured.count.missing.saturating_sub(of_load) + of_server,
        kilobits: measured.count.bytes as f64 * 8.0 / 1e3 / measured.seconds / receivers as f64,
        memory: (call.server.resident()? - before) / (shape.publishers + shape.subscribers) as f64,
        measured,
    })
}

/// Returns Conclave's figures, with the other server's figures in their notes. `memory_limit` is in KiB.
fn compare(name: &str, memory_limit: f64, own: &Outcome, other: Option<&Outcome>) -> [Figure; 4] {
    let note = |own: String, of_other: fn(&Outcome) -> String| match other {
        Some(other) if own.is_empty() => format!("LiveKit: {}", of_other(other)),
        Some(other) => format!("{own}. LiveKit: {}", of_other(other)),
        None => own,
    };
    let Outcome {
        measured,
        lost,
        memory,
        ..
    } = own;
    let [of_server, of_load] = measured.dropped;
    let dropped = format!(
        "of {} packets; {of_server} datagrams dropped at the server's sockets, {of_load} at the load's",
        thousands(measured.count.packets as f64)
    );
    let median = format!("median {:.2} ms", measured.delay(50.0));
    [
        Figure::new(format!("{name}, lost"), *lost as f64, Unit::Count)
            .under(1.0)
            .note(note(dropped, |other| thousands(other.lost as f64))),
        Figure::new(format!("{name}, packets"), measured.rate(), Unit::PerSecond)
            .note(note(own.work(), |other| {
                format!("{}/s, {}", thousands(other.measured.rate()), other.work())
            })),
        Figure::new(
            format!("{name}, latency p99"),
            measured.delay(99.0),
            Unit::Milliseconds,
        )
        .note(note(median, |other| {
            format!("{:.2} ms", other.measured.delay(99.0))
        })),
        Figure::new(format!("{name}, memory for each"), *memory, Unit::KibiBytes)
            .under(memory_limit)
            .note(note(String::new(), |other| {
                format!("{:.2} KiB", other.memory)
            })),
    ]
}

impl Outcome {
    /// Returns the receivers' bitrate, and the processor time for it.
    fn work(&self) -> String {
        let [server, load] = self.measured.shares().map(|share| share * 100.0);
        format!(
            "{:.0} kbit/s for each receiver; server {server:.0} % and load {load:.0} % of a core",
            self.kilobits
        )
    }
}

/// Makes a short call with two participants, so that one-time initialization at the first requests is not counted for the next call's
/// participants.
fn first_call(call: &mut Call) -> Result<(), BenchError> {
    let joined = call.add_room(Shape::new(1, 1, None))?;
    call.load.run(WARM_UP)?;
    joined
        .into_iter()
        .try_for_each(|client| call.load.leave(client))?;
    call.load.run(WARM_UP)
}
