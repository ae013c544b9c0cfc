//! CPU time per forwarded packet, alternately for Conclave and a LiveKit server.

use std::time::Duration;

use super::call::{Call, Measurement, Shape};
use super::cores::confine;
use super::server::Program;
use super::{Pace, Servers};
use crate::BenchError;
use crate::figure::{Curve, Figure, Section, Unit, thousands};

/// The meeting: each receives all others in grid size.
const MEETING: Shape = Shape::new(8, 0, Some((480, 270)));
/// Audience sizes for one publisher; subscribers receive the best layer.
const AUDIENCES: [usize; 4] = [1, 10, 50, 200];
/// Time before a measurement in which bandwidth estimates settle.
const WARM_UP: Duration = Duration::from_secs(4);

/// A server's cost per packet.
pub struct Cost {
    /// CPU time per packet, in microseconds.
    pub packet: f64,
    /// Share of a core.
    share: f64,
    /// Packets per second.
    rate: String,
}

/// Measures both servers, or Conclave alone.
pub fn measure(servers: &Servers, pace: Pace) -> Result<Section, BenchError> {
    let mut figures = Vec::new();
    let mut lines: Vec<_> = servers
        .programs()
        .into_iter()
        .map(|program| (program.name(), Vec::new()))
        .collect();
    figures.extend(compare("meeting of 8", MEETING, servers, pace)?.1);
    for audience in pace.choose(&AUDIENCES[1..], &AUDIENCES[..]) {
        let shape = Shape::new(1, *audience, None);
        let (costs, compared) = compare(&format!("1 to {audience}"), shape, servers, pace)?;
        figures.extend(compared);
        for (line, cost) in lines.iter_mut().zip(costs) {
            line.1.push((*audience as f64, cost.share * 100.0));
        }
    }
    Ok(Section {
        title: "Media: CPU of forwarding",
        about: "User and system time of the server, divided by the media packets that its subscribers count. The \
                publishers send VP8 in three layers (1.7 Mbit/s, 450 and 160 kbit/s) and Opus; the subscribers \
                report what arrives, so that the server estimates their bandwidth. Server and load run on one core \
                each. The ratio compares with livekit-server, measured alternately with the same load.",
        figures,
        curves: vec![Curve {
            title: "CPU by the number of subscribers",
            size: "subscribers of one publisher",
            unit: "%",
            lines,
        }],
    })
}

/// Returns each server's costs, and the figures.
fn compare(
    name: &str,
    shape: Shape,
    servers: &Servers,
    pace: Pace,
) -> Result<(Vec<Cost>, Vec<Figure>), BenchError> {
    let programs = servers.programs();
    let mut seen: Vec<Vec<Measurement>> = programs.iter().map(|_| Vec::new()).collect();
    for _ in 0..pace.choose(1, 3) {
        for (program, measurements) in programs.iter().zip(&mut seen) {
            measurements.push(run(program, shape, pace)?);
        }
    }
    let costs: Vec<_> = seen
        .iter()
        .map(|measurements| Cost::new(measurements))
        .collect();
    let own = &costs[0];
    let mut figures = vec![own.figure(name)];
    if let Some(livekit) = costs.get(1) {
        let Cost {
            packet,
            share,
            rate,
        } = livekit;
        let note = format!(
            "LiveKit: {packet:.2} µs, {rate} packets/s, {:.0} % of a core",
            share * 100.0
        );
        let ratio = Figure::new(
            format!("{name}, of LiveKit's"),
            own.packet / packet,
            Unit::Ratio,
        )
        .under(1.0);
        figures.push(ratio.note(note));
    }
    Ok((costs, figures))
}

impl Cost {
    pub fn new(measurements: &[Measurement]) -> Self {
        let sum = |of: fn(&Measurement) -> f64| measurements.iter().map(of).sum::<f64>();
        let (cpu, seconds, packets) = (
            sum(|one| one.cpu[0]),
            sum(|one| one.seconds),
            sum(|one| one.count.packets as f64),
        );
        Self {
            packet: cpu * 1e6 / packets,
            share: cpu / seconds,
            rate: thousands(packets / seconds),
        }
    }

    pub fn figure(&self, name: &str) -> Figure {
        let note = format!(
            "{} packets/s, {:.0} % of a core",
            self.rate,
            self.share * 100.0
        );
        Figure::new(
            format!("{name}, for each packet"),
            self.packet,
            Unit::Microseconds,
        )
        .note(note)
    }
}

/// Measures a call.
pub fn run(program: &Program, shape: Shape, pace: Pace) -> Result<Measurement, BenchError> {
    let confined = confine()?;
    let mut call = Call::start(
        program,
        confined.as_ref().map(|confined| confined.server),
        shape.route,
    )?;
    call.add_room(shape)?;
    call.measure(WARM_UP, Duration::from_secs(pace.choose(4, 8)))
}
