//! What is requested of a publisher: key frames of its layers, and the qualities of its video.

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

/// How long a publisher sends all qualities before the first report.
const FIRST_REPORT: Duration = Duration::from_secs(10);

/// How long a quality must be unused before it is reported to the publisher.
const LOWER_AFTER: Duration = Duration::from_secs(5);

/// What a publisher knows of the use of its video.
#[derive(Debug, Clone)]
pub struct QualityUse {
    published: Instant,
    /// The number of layers in use in the last report; `None` before the first one.
    reported: Option<usize>,
    /// Since when fewer are used than in it.
    lower_since: Option<Instant>,
}

impl QualityUse {
    /// Starts when the track is published.
    pub const fn new(now: Instant) -> Self {
        Self {
            published: now,
            reported: None,
            lower_since: None,
        }
    }

    /// Starts when a track is published that the publisher was asked for, with all of so many layers.
    pub const fn requested(layers: usize, now: Instant) -> Self {
        Self {
            published: now,
            reported: Some(layers),
            lower_since: None,
        }
    }

    /// Returns the number of layers in use in the last report; `None` before the first one.
    pub const fn reported(&self) -> Option<usize> {
        self.reported
    }

    /// Takes how many layers are used now. Returns that number if it is to be reported: more at once, fewer after a while.
    pub fn update(&mut self, used: usize, now: Instant) -> Option<usize> {
        let Some(reported) = self.reported else {
            let is_due = now >= self.published + FIRST_REPORT;
            return is_due.then(|| self.report(used));
        };
        if used == reported {
            self.lower_since = None;
        } else if used > reported || now >= *self.lower_since.get_or_insert(now) + LOWER_AFTER {
            return Some(self.report(used));
        }
        None
    }

    fn report(&mut self, used: usize) -> usize {
        (self.reported, self.lower_since) = (Some(used), None);
        used
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

    #[test]
    fn less_than_all_of_what_was_requested_is_reported_after_a_while() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut quality = QualityUse::requested(3, start);
        assert_eq!(quality.update(3, at(0)), None);
        assert_eq!(quality.update(0, at(1)), None);
        assert_eq!(quality.update(0, at(6)), Some(0));
        assert_eq!(
            (quality.update(1, at(7)), quality.reported()),
            (Some(1), Some(1))
        );
    }

    #[test]
    fn more_is_reported_at_once_and_less_after_a_while() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut quality = QualityUse::new(start);
        assert_eq!(quality.update(3, at(9)), None);
        assert_eq!(quality.update(0, at(10)), Some(0));
        assert_eq!(quality.update(2, at(11)), Some(2));
        assert_eq!(quality.update(1, at(12)), None);
        assert_eq!(quality.update(2, at(16)), None);
        assert_eq!(quality.update(1, at(17)), None);
        assert_eq!(quality.update(1, at(22)), Some(1));
    }
}
