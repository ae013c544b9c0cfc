//! What a server adds to the way of a packet, while its core is loaded.

use std::time::Duration;

use super::call::{Call, Shape};
use super::cores::confine;
use super::server::Program;
use super::{Servers, stalls};
use crate::BenchError;
use crate::figure::{Figure, Section, Unit, thousands};

/// A meeting: each receives all others in the size of a grid.
const MEETING: Shape = Shape { publishers: 6, subscribers: 0, view: Some((640, 360)) };
/// The share of its core that the server is to use.
const LOAD: f64 = 0.7;
/// The most meetings, and how many are added before it is measured how much a meeting takes.
const MEETINGS: [usize; 2] = [40, 3];
const WARM_UP: Duration = Duration::from_secs(3);
const TIME: Duration = Duration::from_secs(8);
/// A share of the core at which the load itself is late.
const BUSY: f64 = 0.95;
/// What a server may add, in milliseconds.
const ADDED: f64 = 2.0;

/// Measures both servers, or Conclave alone.
pub fn measure(servers: &Servers) -> Result<Section, BenchError> {
    let mut figures = Vec::from_iter(idle_core()?);
    for program in servers.programs() {
        figures.extend(run(program)?);
    }
    Ok(Section {
        title: "Media: added latency",
        about: "From the publisher's call that sends a packet to its arrival at the receiver's socket, which the system notes, over \
                loopback. Meetings of 6 are added until the server uses 70 % of its core; it runs on one core, the load on another. An idle \
                core is measured by a program that does nothing else than to look whether it runs: what arrives while it does not \
                has to wait without any server, and on a busy core for several times as long.",
        figures,
        curves: Vec::new(),
    })
}

/// How often a packet would wait for too long for the server's core alone; `None` if there is only one core.
fn idle_core() -> Result<Option<Figure>, BenchError> {
    let Some(confined) = confine()? else { return Ok(None) };
    let stalls = stalls::measure(confined.server, TIME, Duration::from_secs_f64(ADDED / 1e3))?;
    let name = format!("an idle core, waits of over {ADDED} ms");
    let note = format!("of all moments; the longest wait {:.1?}", stalls.longest);
    Ok(Some(Figure::new(name, stalls.share * 100.0, Unit::Percent).note(note)))
}

fn run(program: &Program) -> Result<Vec<Figure>, BenchError> {
    let confined = confine()?;
    let mut call = Call::start(program, confined.as_ref().map(|confined| confined.server))?;
    let [most, step] = MEETINGS;
    let mut meetings = 0;
    let measured = loop {
        (0..step).try_for_each(|_| call.add_room(MEETING).map(drop))?;
        meetings += step;
        let probe = call.measure(WARM_UP, Duration::from_secs(1))?;
        let [server, load] = probe.shares();
        if server >= LOAD - 0.05 || load >= BUSY || meetings >= most {
            break call.measure(Duration::ZERO, TIME)?;
        }
    };
    let [server, load] = measured.shares().map(|share| share * 100.0);
    let note = format!(
        "{meetings} meetings, {} packets/s; the server's core {server:.0} % busy, the load's {load:.0} %; median {:.2} ms",
        thousands(measured.rate()),
        measured.delay(50.0)
    );
    let p99 = Figure::new(format!("{}, p99", program.name()), measured.delay(99.0), Unit::Milliseconds).note(note);
    Ok(vec![if matches!(program, Program::Conclave(_)) { p99.under(ADDED) } else { p99 }])
}
