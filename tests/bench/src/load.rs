//! A load: connections that each send requests sequentially for a time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::BenchError;
use crate::connection::Connection;

/// Unmeasured time before a round.
const WARM_UP: Duration = Duration::from_millis(500);

/// A load's measurements: the latency of each response.
pub struct Sample {
    latencies: Vec<Duration>,
    seconds: f64,
}

impl Sample {
    /// Creates a sample from the latencies in a time.
    pub fn new(latencies: Vec<Duration>, time: Duration) -> Self {
        Self {
            latencies,
            seconds: time.as_secs_f64(),
        }
    }

    /// Returns the responses per second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    /// Returns the latency in milliseconds within which this percentage of responses came.
    pub fn percentile(&self, percent: f64) -> f64 {
        percentile(&self.latencies, percent)
            .map_or(f64::NAN, |latency| latency.as_secs_f64() * 1_000.0)
    }

    /// Merges two samples of the same load.
    pub fn and(self, other: Self) -> Self {
        let seconds = self.seconds + other.seconds;
        Self::new(
            [self.latencies, other.latencies].concat(),
            Duration::from_secs_f64(seconds),
        )
    }
}

/// Returns this percentile; `None` without times.
pub fn percentile<T: Copy + Ord>(times: &[T], percent: f64) -> Option<T> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let place = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

/// Sends requests one after the other; the first ones fill caches and are not measured.
pub async fn one_after_the_other(
    address: &str,
    (warm_up, requests): (usize, usize),
    next: impl Fn(usize) -> Vec<u8>,
) -> Result<Sample, BenchError> {
    let mut connection = Connection::open(address).await?;
    for number in 0..warm_up {
        connection.exchange(&next(number)).await?;
    }
    let (mut latencies, begun) = (Vec::with_capacity(requests), Instant::now());
    for number in warm_up..warm_up + requests {
        let request = next(number);
        let sent = Instant::now();
        connection.exchange(&request).await?;
        latencies.push(sent.elapsed());
    }
    Ok(Sample::new(latencies, begun.elapsed()))
}

/// Sends requests over some connections for a time. `next` returns the bytes of a connection's next request.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let times: Vec<u32> = (1..=200).rev().collect();
        assert_eq!(
            [0.0, 50.0, 99.0, 100.0].map(|percent| percentile(&times, percent)),
            [1, 100, 198, 200].map(Some)
        );
        assert_eq!(percentile::<u32>(&[], 50.0), None);
    }
}
