//! Which qualities of its video a publisher is asked to send.

use std::time::{Duration, Instant};

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
