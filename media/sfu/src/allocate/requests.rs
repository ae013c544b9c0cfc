//! Requests to publishers: key frames of their layers, and the qualities of a video that are in use.

use std::time::{Duration, Instant};

/// Rate limit of key frame requests for one layer, independent of the number of receivers.
///
/// On average, one request per interval is sent, so that participants joining one after another do not degrade the
/// video for everyone: a key frame costs many times the bits of other frames. A few requests may be sent early, so that
/// a participant who joins right after another need not wait. An unanswered request is repeated after the interval.
#[derive(Debug, Clone)]
pub struct KeyFrameRequests {
    interval: Duration,
    /// Time of the last request, and whether its key frame has arrived.
    last: Option<(Instant, bool)>,
    /// Time at which all requests so far would have been sent at the average rate.
    paid_until: Option<Instant>,
    is_wanted: bool,
    /// Requests sent to the publisher so far.
    pub count: u64,
}

/// Requests that may be sent ahead of the average rate.
const BURST: u32 = 3;

impl KeyFrameRequests {
    /// Creates a limit without requests. `interval` is the mean time between two requests.
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: None,
            paid_until: None,
            is_wanted: false,
            count: 0,
        }
    }

    /// Records that a receiver needs a key frame.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Records that a key frame has started, with which all waiting receivers start.
    pub fn satisfy(&mut self) {
        self.is_wanted = false;
        if let Some((_, is_answered)) = &mut self.last {
            *is_answered = true;
        }
    }

    /// Returns whether a request must be sent now.
    pub fn is_due(&self, now: Instant) -> bool {
        // While a key frame is under way, another request would only produce a second one.
        let is_answered = self
            .last
            .is_none_or(|(at, is_answered)| is_answered || now >= at + self.interval);
        self.is_wanted && is_answered && !self.is_exhausted(now)
    }

    /// Returns whether the burst is used up, so that the next request has to wait.
    pub fn is_exhausted(&self, now: Instant) -> bool {
        self.paid_until
            .is_some_and(|until| until > now + self.interval * (BURST - 1))
    }

    /// Records a request that is sent now. The key frame stays wanted until it arrives, because the request can be
    /// lost.
    pub fn record_sent(&mut self, now: Instant) {
        self.last = Some((now, false));
        // Idle time earns no credit: a pause of a minute must not permit sixty requests at once.
        self.paid_until = Some(self.paid_until.map_or(now, |until| until.max(now)) + self.interval);
        self.count += 1;
    }
}

/// Time after publication during which a publisher sends all qualities, before the first report.
const FIRST_REPORT: Duration = Duration::from_secs(10);

/// Time for which a quality must be unused before that is reported. A client that switches its layout would otherwise
/// stop and restart an encoder.
const LOWER_AFTER: Duration = Duration::from_secs(5);

/// Use of a video's qualities, as far as its publisher knows.
#[derive(Debug, Clone)]
pub struct QualityUse {
    published: Instant,
    /// Number of layers in use according to the last report; `None` before the first one.
    reported: Option<usize>,
    /// Since when fewer layers are in use than reported.
    lower_since: Option<Instant>,
}

impl QualityUse {
    /// Creates the state of a newly published track.
    pub const fn new(now: Instant) -> Self {
        Self {
            published: now,
            reported: None,
            lower_since: None,
        }
    }

    /// Creates the state of a track that the server requested from its publisher, which sends all of its `layers`.
    pub const fn requested(layers: usize, now: Instant) -> Self {
        Self {
            published: now,
            reported: Some(layers),
            lower_since: None,
        }
    }

    /// Returns the number of layers in use according to the last report; `None` before the first one.
    pub const fn reported(&self) -> Option<usize> {
        self.reported
    }

    /// Processes the number of layers in use now. Returns it if it must be reported: an increase at once, a decrease
    /// after a while.
    pub fn update(&mut self, used: usize, now: Instant) -> Option<usize> {
        let Some(reported) = self.reported else {
            let is_due = now >= self.published + FIRST_REPORT;
            return is_due.then(|| self.report(used));
        };
        // An increase is reported at once: a receiver already waits for the layer.
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
        let start = Instant::now();
        let mut requests = KeyFrameRequests::new(SECOND);
        let due = (0..100).filter(|step| {
            let now = start + STEP * *step;
            requests.want();
            let is_due = requests.is_due(now);
            if is_due {
                requests.record_sent(now);
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
        // A burst of three at the start, then the mean rate.
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
        // The return to 2 has ended the first wait; this one ends at second 22.
        assert_eq!(quality.update(1, at(17)), None);
        assert_eq!(quality.update(1, at(22)), Some(1));
    }
}
