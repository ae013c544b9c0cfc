//! Latency added by a server while its core is loaded.

use std::time::Duration;

use super::call::{Call, Measurement, Shape};
use super::cores::confine;
use super::server::Program;
use super::stalls::KernelThreads;
use super::{Route, Servers, stalls};
use crate::BenchError;
use crate::figure::{Figure, Section, Unit, thousands};

/// A meeting: each receives all others in grid size.
const MEETING: Shape = Shape::new(6, 0, Some((640, 360)));
/// The server's intended share of its core.
const LOAD: f64 = 0.7;
/// Maximum number of meetings, and the initial number.
const MEETINGS: [usize; 2] = [40, 3];
const WARM_UP: Duration = Duration::from_secs(3);
/// Duration for measuring the meetings' load.
const PROBE: Duration = Duration::from_secs(2);
/// Duration for measuring an idle core.
const TIME: Duration = Duration::from_secs(8);
/// Length of the measurement's slices. Packets delayed by the kernel's own threads are sent in the next slice at the latest.
const SLICE: Duration = Duration::from_millis(250);
/// Slices per server.
const SLICES: usize = 64;
/// Share of a slice that the kernel's own threads may use until it counts as disturbed.
const DISTURBED: f64 = 0.01;
/// Share of the core at which the load itself is late.
const BUSY: f64 = 0.95;
/// Limit for a server's added latency, in milliseconds.
const ADDED: f64 = 2.0;

/// Measures both servers, or Conclave alone.
pub fn measure(servers: &Servers) -> Result<Section, BenchError> {
    let mut figures = Vec::from_iter(idle_core()?);
    for program in servers.programs() {
        figures.extend(run(program)?);
    }
    Ok(Section {
        title: "Media: added latency",
        about: "The time from the publisher's call that sends a packet to its arrival at the subscriber's socket, as \
                timestamped by the kernel, over loopback. Meetings of 6 are added until the server uses 70 % of its \
                core; the load runs on another core. A program that only checks whether it is running measures an \
                idle core: a packet that arrives while it is not running would wait even without a server, and \
                several times as long on a busy core. Undisturbed figures count only times when the kernel's own \
                threads (packet processing excluded) have used under 1 % of a core for at least 250 ms.",
        figures,
        curves: Vec::new(),
    })
}

/// Measures the share of packets that an otherwise idle core alone would delay for too long; `None` if there is only one core.
fn idle_core() -> Result<Option<Figure>, BenchError> {
    let Some(confined) = confine()? else {
        return Ok(None);
    };
    let stalls = stalls::measure(confined.server, TIME, Duration::from_secs_f64(ADDED / 1e3))?;
    let name = format!("an idle core, waits of over {ADDED} ms");
    let note = format!("of all moments; the longest wait {:.1?}", stalls.longest);
    Ok(Some(
        Figure::new(name, stalls.share * 100.0, Unit::Percent).note(note),
    ))
}

fn run(program: &Program) -> Result<Vec<Figure>, BenchError> {
    let confined = confine()?;
    let mut call = Call::start(
        program,
        confined.as_ref().map(|confined| confined.server),
        Route::Direct,
    )?;
    let meetings = add_meetings(&mut call)?;
    let Measured { all, undisturbed } = measure_slices(&mut call)?;
    let [server, load] = all.shares().map(|share| share * 100.0);
    let note = format!(
        "{meetings} meetings, {} packets/s; the server's core {server:.0} % busy, the load's {load:.0} %; median {:.2} ms",
        thousands(all.rate()),
        all.delay(50.0)
    );
    let name = program.name();
    let undisturbed_note = format!(
        "{:.0} % of the time; median {:.2} ms",
        undisturbed.seconds / all.seconds * 100.0,
        undisturbed.delay(50.0)
    );
    let rows = [
        Figure::new(format!("{name}, p99"), all.delay(99.0), Unit::Milliseconds).note(note),
        Figure::new(
            format!("{name}, p99 undisturbed"),
            undisturbed.delay(99.0),
            Unit::Milliseconds,
        )
        .note(undisturbed_note),
    ];
    let is_ours = matches!(program, Program::Conclave(_));
    Ok(rows
        .into_iter()
        .map(|row| if is_ours { row.under(ADDED) } else { row })
        .collect())
}

/// Adds meetings until another would exceed the intended load. Returns their number.
fn add_meetings(call: &mut Call) -> Result<usize, BenchError> {
    let [most, mut more] = MEETINGS;
    let mut meetings = 0;
    loop {
        (0..more).try_for_each(|_| call.add_room(MEETING).map(drop))?;
        meetings += more;
        let [server, load] = call.measure(WARM_UP, PROBE)?.shares();
        let missing = (LOAD - server) / (server / meetings as f64);
        if missing < 0.5 || load >= BUSY || meetings >= most {
            return Ok(meetings);
        }
        more = ((missing / 2.0) as usize).max(1);
    }
}

/// Measurements in all slices, and in slices without kernel disturbance.
#[derive(Default)]
struct Measured {
    all: Measurement,
    undisturbed: Measurement,
}

fn measure_slices(call: &mut Call) -> Result<Measured, BenchError> {
    let mut threads = KernelThreads::find()?;
    let (mut measured, mut was_disturbed, mut before) =
        (Measured::default(), false, threads.time());
    for _ in 0..SLICES {
        let slice = call.measure(Duration::ZERO, SLICE)?;
        let now = threads.time();
        let is_disturbed = now - before > SLICE.mul_f64(DISTURBED);
        if !is_disturbed && !was_disturbed {
            measured.undisturbed.add(slice.clone());
        }
        measured.all.add(slice);
        (was_disturbed, before) = (is_disturbed, now);
    }
    Ok(measured)
}
