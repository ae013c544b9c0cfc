//! Duration of a join, and memory left behind by many joins.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::call::{Call, Shape};
use super::client::Participation;
use super::{Pace, Route, Servers};
use crate::BenchError;
use crate::figure::{Figure, Section, Unit, thousands};
use crate::load::percentile;

/// The room for the joins.
const ROOM: Shape = Shape::new(2, 4, None);
/// Interval between timed joins.
const BETWEEN_TIMED: Duration = Duration::from_secs(1);
/// Time limit for each, after which the measurement fails.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between joins in the long run, and the number of participants that stay.
const BETWEEN_JOINS: Duration = Duration::from_millis(50);
const PRESENT: usize = 40;
/// Share of the long run after which memory should stop growing.
const WARM_UP: f64 = 0.25;

/// Measures Conclave.
pub fn measure(servers: &Servers, pace: Pace) -> Result<Section, BenchError> {
    let timed = time_joins(servers, pace)?;
    let [among_many, memory] = join_and_leave(servers, pace)?;
    Ok(Section {
        title: "Media: joins",
        about: "The time of a join runs from the websocket's TCP connection to the last packet of the first frame. \
                One participant joins per second. The long run keeps 40 participants: 20 join per second, and the \
                oldest one leaves for each.",
        figures: vec![timed, among_many, memory],
        curves: Vec::new(),
    })
}

fn time_joins(servers: &Servers, pace: Pace) -> Result<Figure, BenchError> {
    let timed = pace.choose(30, 100);
    let mut call = Call::start(&servers.conclave, None, Route::Direct)?;
    let mut tokens = call.new_room(ROOM.publishers + timed)?.into_iter();
    for token in tokens.by_ref().take(ROOM.publishers) {
        let publisher = call
            .load
            .join(call.server.address, &token, &Participation::PUBLISHER)?;
        call.load
            .run_until("a publisher is connected", PATIENCE, |load| {
                Ok(load.client(publisher)?.is_connected())
            })?;
    }
    call.load.run(Duration::from_secs(1))?;
    let mut times = Vec::new();
    for token in tokens {
        let next = Instant::now() + BETWEEN_TIMED;
        let id = call
            .load
            .join(call.server.address, &token, &Participation::SUBSCRIBER)?;
        call.load.run_until("a first frame", PATIENCE, |load| {
            Ok(load.client(id)?.received.first_frame.is_some())
        })?;
        times.extend(call.load.client(id)?.received.first_frame);
        call.load.leave(id)?;
        call.load
            .run(next.saturating_duration_since(Instant::now()))?;
    }
    Ok(first_frame_figure("join to first frame, p99", &times).under(300.0))
}

fn join_and_leave(servers: &Servers, pace: Pace) -> Result<[Figure; 2], BenchError> {
    let time = Duration::from_secs(pace.choose(60, 600));
    let mut call = Call::start(&servers.conclave, None, Route::Direct)?;
    let tokens = call.new_room(ROOM.publishers + 2 * PRESENT)?;
    let (publishers, others) = tokens.split_at(ROOM.publishers);
    for token in publishers {
        call.load
            .join(call.server.address, token, &Participation::PUBLISHER)?;
    }
    let (begun, mut joins, mut present, mut settled) = (Instant::now(), 0, VecDeque::new(), None);
    let mut first_frames = Vec::new();
    while begun.elapsed() < time {
        if present.len() == PRESENT
            && let Some(oldest) = present.pop_front()
        {
            let received = &call.load.client(oldest)?.received;
            first_frames.push(
                received
                    .first_frame
                    .ok_or("a participant has left without a frame")?,
            );
            call.load.leave(oldest)?;
        }
        present.push_back(call.load.join(
            call.server.address,
            &others[joins % others.len()],
            &Participation::SUBSCRIBER,
        )?);
        joins += 1;
        call.load.run(BETWEEN_JOINS)?;
        if begun.elapsed() >= time.mul_f64(WARM_UP) && settled.is_none() {
            settled = Some(call.server.resident()?);
        }
        call.load.take_count();
    }
    let (before, after) = (
        settled.ok_or("the run was too short")?,
        call.server.resident()?,
    );
    let note = format!(
        "{:.1} and {:.1} MiB, {} joins in {} s",
        before / 1024.0,
        after / 1024.0,
        thousands(joins as f64),
        time.as_secs()
    );
    Ok([
        first_frame_figure("first frame while many join, p99", &first_frames),
        Figure::new(
            "memory at the end, of that after a quarter",
            after / before,
            Unit::Ratio,
        )
        .under(1.1)
        .note(note),
    ])
}

/// Summarizes the times from joins to first frames.
fn first_frame_figure(name: &str, times: &[Duration]) -> Figure {
    let milliseconds =
        |percent| percentile(times, percent).unwrap_or_default().as_secs_f64() * 1_000.0;
    let note = format!(
        "median {:.0} ms, longest {:.0} ms",
        milliseconds(50.0),
        milliseconds(100.0)
    );
    Figure::new(name, milliseconds(99.0), Unit::Milliseconds).note(note)
}
