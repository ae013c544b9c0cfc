//! Large calls on all cores, with the load: what is lost, and the memory of a participant.

use std::time::Duration;

use super::call::{Call, Shape};
use super::{Pace, Servers};
use crate::BenchError;
use crate::figure::{Figure, Section, Unit, thousands};

/// The calls: a webinar in which all see the best layer, and a meeting in the tiles of a grid.
const CALLS: [(&str, Shape); 2] = [
    ("1 to 500", Shape { publishers: 1, subscribers: 500, view: None }),
    ("20 by 20", Shape { publishers: 20, subscribers: 0, view: Some((384, 216)) }),
];
const WARM_UP: Duration = Duration::from_secs(5);

/// Measures Conclave.
pub fn measure(servers: &Servers, pace: Pace) -> Result<Section, BenchError> {
    let mut figures = Vec::new();
    for (name, shape) in CALLS {
        figures.extend(run(name, shape, servers, pace)?);
    }
    Ok(Section {
        title: "Media: large calls",
        about: "One room, with server and load on the same cores. Lost is what never came, also not when it was sent again, \
                without what the load's own sockets have dropped; the calls are one publisher to 500 subscribers who want its best layer \
                (1,700 kbit/s), and 20 participants who see each other in tiles of 384x216.",
        figures,
        curves: Vec::new(),
    })
}

fn run(name: &str, shape: Shape, servers: &Servers, pace: Pace) -> Result<Vec<Figure>, BenchError> {
    let mut call = Call::start(&servers.conclave, None)?;
    first_call(&mut call)?;
    let before = call.server.resident()?;
    call.add_room(shape)?;
    let time = Duration::from_secs(pace.choose(10, 30));
    let measured = call.measure(WARM_UP, time)?;
    let memory = (call.server.resident()? - before) / (shape.publishers + shape.subscribers) as f64;
    let [of_server, of_load] = measured.dropped;
    let [server, load] = measured.shares().map(|share| share * 100.0);
    let lost = measured.count.missing.saturating_sub(of_load) + of_server;
    let note = format!(
        "of {} packets; {of_server} datagrams dropped at the server's sockets, {of_load} at the load's",
        thousands(measured.count.packets as f64)
    );
    let receivers = if shape.subscribers > 0 { shape.subscribers } else { shape.publishers };
    let kilobits = measured.count.bytes as f64 * 8.0 / 1e3 / measured.seconds / receivers as f64;
    let rate = format!("{kilobits:.0} kbit/s for each receiver; server {server:.0} % and load {load:.0} % of a core");
    let delay = format!("median {:.2} ms", measured.delay(50.0));
    Ok(vec![
        Figure::new(format!("{name}, lost"), lost as f64, Unit::Count).under(1.0).note(note),
        Figure::new(format!("{name}, packets"), measured.rate(), Unit::PerSecond).note(rate),
        Figure::new(format!("{name}, latency p99"), measured.delay(99.0), Unit::Milliseconds).note(delay),
        Figure::new(format!("{name}, memory for each"), memory, Unit::KibiBytes).under(300.0),
    ])
}

/// Lets two participants have a short call, so that what the server makes once, at its first requests, is not counted for the
/// participants of the next one.
fn first_call(call: &mut Call) -> Result<(), BenchError> {
    let joined = call.add_room(Shape { publishers: 1, subscribers: 1, view: None })?;
    call.load.run(WARM_UP)?;
    joined.into_iter().try_for_each(|client| call.load.leave(client))?;
    call.load.run(WARM_UP)
}
