//! A load: connections that each send one request after the other for a time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::BenchError;
use crate::connection::Connection;

/// The time before a round that is not measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// What a load has seen: the latency of each response.
pub struct Sample {
    latencies: Vec<Duration>,
    seconds: f64,
}

impl Sample {
    /// Takes latencies that were seen in a time.
    pub fn new(mut latencies: Vec<Duration>, time: Duration) -> Self {
        latencies.sort_unstable();
        Self { latencies, seconds: time.as_secs_f64() }
    }

    /// Responses each second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    /// The latency in milliseconds that this part of all responses kept.
    pub fn quantile(&self, part: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * part).round() as usize;
        self.latencies.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1_000.0)
    }

    /// Joins two samples of the same load.
    pub fn and(self, other: Self) -> Self {
        let seconds = self.seconds + other.seconds;
        Self::new([self.latencies, other.latencies].concat(), Duration::from_secs_f64(seconds))
    }
}

/// Sends requests over some connections for a time. `next` gives the bytes of the next request of a connection.
pub async fn run(
    address: &str,
    connections: usize,
    time: Duration,
    next: impl Fn(usize) -> Vec<u8> + 'static,
) -> Result<Sample, BenchError> {
    let (next, seen) = (Rc::new(next), Rc::new(RefCell::new(Vec::new())));
    let from = Instant::now() + WARM_UP;
    let tasks = LocalSet::new();
    let handles: Vec<_> = (0..connections)
        .map(|number| {
            let (address, next, seen) = (address.to_owned(), Rc::clone(&next), Rc::clone(&seen));
            tasks.spawn_local(async move {
                let mut connection = Connection::open(&address).await?;
                loop {
                    let begun = Instant::now();
                    if begun >= from + time {
                        return Ok::<_, BenchError>(());
                    }
                    connection.exchange(&next(number)).await?;
                    if begun >= from {
                        seen.borrow_mut().push(begun.elapsed());
                    }
                }
            })
        })
        .collect();
    tasks.await;
    for handle in handles {
        handle.await??;
    }
    Ok(Sample::new(seen.take(), time))
}
