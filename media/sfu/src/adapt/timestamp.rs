//! RTP timestamps that go on across changes of the source.

use std::time::{Duration, Instant};

/// Maps the RTP timestamps of changing sources to one time line, which follows the wall clock at each change.
#[derive(Debug, Clone)]
pub struct Timestamps {
    /// What is added to the source's timestamps.
    offset: u32,
    /// The newest timestamp handed out, and when its first packet arrived.
    last: Option<(u32, Instant)>,
    /// The timestamp that the time line starts with.
    first: u32,
}

impl Timestamps {
    /// Starts a time line with this timestamp.
    pub const fn new(first: u32) -> Self {
        Self {
            offset: 0,
            last: None,
            first,
        }
    }

    /// Continues the time line with a source whose first packet has this timestamp and arrived now.
    pub fn switch(&mut self, timestamp: u32, now: Instant, clock_rate: u32) {
        self.offset = self.continued(now, clock_rate).wrapping_sub(timestamp);
    }

    /// Returns the timestamp of a packet that is of no source, and is sent now.
    pub fn insert(&mut self, now: Instant, clock_rate: u32) -> u32 {
        let timestamp = self.continued(now, clock_rate);
        self.last = Some((timestamp, now));
        timestamp
    }

    fn continued(&self, now: Instant, clock_rate: u32) -> u32 {
        match self.last {
            Some((last, at)) => {
                last.wrapping_add(elapsed_ticks(now.saturating_duration_since(at), clock_rate))
            }
            None => self.first,
        }
    }

    /// Returns the timestamp of a packet of the source on the time line.
    pub fn rewrite(&mut self, timestamp: u32, now: Instant) -> u32 {
        let mapped = timestamp.wrapping_add(self.offset);
        if self.last.is_none_or(|(last, _)| is_newer(mapped, last)) {
            self.last = Some((mapped, now));
        }
        mapped
    }
}

/// Returns the time in ticks, at least one: two sources never share a timestamp, which would join their frames. Gaps of
/// hours wrap, as the timestamp does.
fn elapsed_ticks(elapsed: Duration, clock_rate: u32) -> u32 {
    let ticks = elapsed.as_micros().wrapping_mul(u128::from(clock_rate)) / 1_000_000;
    u32::try_from(ticks & u128::from(u32::MAX))
        .unwrap_or_default()
        .max(1)
}

fn is_newer(timestamp: u32, than: u32) -> bool {
    let ahead = timestamp.wrapping_sub(than);
    ahead != 0 && ahead < 1 << 31
}
