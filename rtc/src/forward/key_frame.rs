//! When a key frame is requested from a publisher.

use std::time::{Duration, Instant};

/// Limits the requests for key frames of one layer: however many receivers need one, the publisher is asked once in a while.
#[derive(Debug, Clone)]
pub struct KeyFrameRequests {
    /// The least time between two requests.
    interval: Duration,
    last: Option<Instant>,
    is_wanted: bool,
    /// Requests sent.
    pub count: u64,
}

impl KeyFrameRequests {
    /// Starts without a request. The interval is the least time between two.
    pub const fn new(interval: Duration) -> Self {
        Self { interval, last: None, is_wanted: false, count: 0 }
    }

    /// Notes that a receiver needs a key frame.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Notes that a key frame has begun, so that all receivers that wait for one start with it.
    pub fn satisfy(&mut self) {
        self.is_wanted = false;
    }

    /// Returns whether a request is to be sent now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.is_wanted && self.last.is_none_or(|last| now >= last + self.interval)
    }

    /// Counts a request that is sent now. A key frame stays wanted until it comes, since a request can get lost.
    pub fn note_sent(&mut self, now: Instant) {
        self.last = Some(now);
        self.count += 1;
    }
}
