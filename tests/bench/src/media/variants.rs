//! CPU time per forwarded packet for other codecs, and for clients behind relays.

use str0m::format::Codec;

use super::call::{Measurement, Shape};
use super::cost::{self, Cost};
use super::{Pace, Route, Servers};
use crate::BenchError;
use crate::figure::{Figure, Section, Unit};

/// One publisher and its subscribers, who receive the best layer.
const CODEC_CALL: Shape = Shape::new(1, 50, None);
const ROUTE_CALL: Shape = Shape::new(1, 10, None);

/// Codecs compared with the first one.
const CODECS: [(&str, Codec); 3] = [
    ("VP8", Codec::Vp8),
    ("VP9 SVC", Codec::Vp9),
    ("AV1 SVC", Codec::Av1),
];
const ROUTES: [(&str, Route); 4] = [
    ("without relay", Route::Direct),
    ("TURN by UDP", Route::TurnByUdp),
    ("TURN by TCP", Route::TurnByTcp),
    ("TURN by TLS", Route::TurnByTls),
];

/// Measures Conclave.
pub fn measure(servers: &Servers, pace: Pace) -> Result<Section, BenchError> {
    let codecs = CODECS.map(|(name, video)| {
        (
            name,
            Shape {
                video,
                ..CODEC_CALL
            },
        )
    });
    let routes = ROUTES.map(|(name, route)| {
        (
            name,
            Shape {
                route,
                ..ROUTE_CALL
            },
        )
    });
    let mut figures = compare(servers, pace, &codecs)?;
    figures.extend(compare(servers, pace, &routes)?);
    Ok(Section {
        title: "Media: codecs and relays",
        about: "The same measurement for codecs that have all three layers in one stream (2.3 Mbit/s), with 50 \
                subscribers, and for clients that reach the server by its own TURN server, with 10. The clients \
                that relay by TLS are a part of the load. The ratio compares with the first row of each group, \
                measured alternately.",
        figures,
        curves: Vec::new(),
    })
}

/// Returns each call's cost, and its ratio to the first call's.
fn compare(
    servers: &Servers,
    pace: Pace,
    calls: &[(&str, Shape)],
) -> Result<Vec<Figure>, BenchError> {
    let mut seen: Vec<Vec<Measurement>> = calls.iter().map(|_| Vec::new()).collect();
    for _ in 0..pace.choose(1, 3) {
        for ((_, shape), measurements) in calls.iter().zip(&mut seen) {
            measurements.push(cost::run(&servers.conclave, *shape, pace)?);
        }
    }
    let costs: Vec<_> = seen
        .iter()
        .map(|measurements| Cost::new(measurements))
        .collect();
    let ((first, _), own) = (calls[0], &costs[0]);
    let mut figures = vec![own.figure(first)];
    for ((name, _), cost) in calls.iter().zip(&costs).skip(1) {
        let ratio = cost.packet / own.packet;
        figures.extend([
            cost.figure(name),
            Figure::new(format!("{name}, to {first}"), ratio, Unit::Ratio),
        ]);
    }
    Ok(figures)
}
