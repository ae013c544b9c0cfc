//! When a key frame is requested from a publisher.

use std::time::{Duration, Instant};

/// Limits the requests for key frames of one layer, however many receivers need one. In the long run there is one request in
/// each interval, so that those who join one after another do not spoil the picture for all others. A few may come sooner, so
/// that a participant who joins just after another need not wait. A request that is not answered is repeated after the interval.
#[derive(Debug, Clone)]
pub struct KeyFrameRequests {
    interval: Duration,
    /// When the last request was sent, and whether its key frame has come.
    last: Option<(Instant, bool)>,
    /// When all requests so far would have been sent at one in each interval.
    paid_until: Option<Instant>,
    is_wanted: bool,
    /// Requests that were sent to the publisher so far.
    pub count: u64,
}

/// How many requests may be sent in advance of the long-run rate.
const BURST: u32 = 3;

impl KeyFrameRequests {
    /// Starts without a request. The interval is the mean time between two.
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: None,
            paid_until: None,
            is_wanted: false,
            count: 0,
        }
    }

    /// Notes that a receiver needs a key frame.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Notes that a key frame has begun, so that all receivers that wait for one start with it.
    pub fn satisfy(&mut self) {
        self.is_wanted = false;
        if let Some((_, is_answered)) = &mut self.last {
            *is_answered = true;
        }
    }

    /// Returns whether a request is to be sent now.
    pub fn is_due(&self, now: Instant) -> bool {
        let is_answered = self
            .last
            .is_none_or(|(at, is_answered)| is_answered || now >= at + self.interval);
        self.is_wanted && is_answered && !self.is_exhausted(now)
    }

    /// Returns whether so many requests have been sent that another has to wait.
    pub fn is_exhausted(&self, now: Instant) -> bool {
        self.paid_until
            .is_some_and(|until| until > now + self.interval * (BURST - 1))
    }

    /// Counts a request that is sent now. A key frame stays wanted until it comes, since a request can get lost.
    pub fn note_sent(&mut self, now: Instant) {
        self.last = Some((now, false));
        self.paid_until = Some(self.paid_until.map_or(now, |until| until.max(now)) + self.interval);
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const STEP: Duration = Duration::from_millis(100);

    /// Returns when requests are sent within ten seconds if a key frame is always wanted, in tenths of a second.
    fn sent(is_answered: bool) -> Vec<u32> {
        let begun = Instant::now();
        let mut requests = KeyFrameRequests::new(SECOND);
        let due = (0..100).filter(|step| {
            let now = begun + STEP * *step;
            requests.want();
            let is_due = requests.is_due(now);
            if is_due {
                requests.note_sent(now);
            }
            if is_due && is_answered {
                requests.satisfy();
            }
            is_due
        });
        due.collect()
    }

    #[test]
    fn an_unanswered_request_is_repeated_after_the_interval() {
        assert_eq!(sent(false), [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    }

    #[test]
    fn a_few_answered_requests_may_come_sooner_than_the_mean() {
        assert_eq!(sent(true), [0, 1, 2, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    }

    #[test]
    fn a_key_frame_serves_all_who_want_one() {
        let now = Instant::now();
        let mut requests = KeyFrameRequests::new(SECOND);
        requests.want();
        requests.satisfy();
        assert!(!requests.is_due(now));
    }
}
