//! Schedule for obtaining certificates: times and challenges. Without I/O and without a clock.
//!
//! A certificate is renewed when a third of its lifetime is left, which also suits certificates that are valid for days. If the CA does not
//! verify the domain, the other challenge is tried at once, if there is one. After further failures, the delays grow, and the challenges
//! alternate. There are at most four attempts in any hour, however often the server starts: Let's Encrypt permits five failed validations
//! per name and hour.

use std::time::Duration;

use conclave_model::Timestamp;

use crate::tls::Certificate;

const MINUTE: Duration = Duration::from_secs(60);
/// Delays in minutes after the first failure in a row, after the second, and so on; the last one repeats.
const DELAYS: [u32; 7] = [2, 10, 20, 40, 80, 160, 320];
const LONGEST_DELAY: Duration = MINUTE.saturating_mul(DELAYS[DELAYS.len() - 1]);
/// Maximum addition to a delay, as a fraction of it, so that servers which failed together do not retry together.
const JITTER: f64 = 0.25;
/// A certificate is renewed when this part of its lifetime is left, as a divisor.
const RENEWED_PART: u32 = 3;

/// Validity period of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// First instant.
    pub not_before: Timestamp,
    /// Last instant.
    pub not_after: Timestamp,
}

/// Method by which a CA verifies control of the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeKind {
    /// TLS handshake with the API listener, which the CA reaches at port 443.
    TlsAlpn,
    /// Request to the redirecting listener, which the CA reaches at port 80.
    Http,
}

/// Kind of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The CA did not verify the domain by one challenge, and offers another.
    OneChallenge,
    /// Any other failure.
    Other,
}

/// Failures since the last success, which are stored for the next start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    /// Number of failures.
    pub count: usize,
    /// Time of the next attempt.
    pub next: Timestamp,
}

/// Schedule of attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    next: Timestamp,
    /// Number of failures since the last success.
    failures: usize,
}

impl From<&Certificate> for Validity {
    fn from(certificate: &Certificate) -> Self {
        Self {
            not_before: certificate.not_before,
            not_after: certificate.not_after,
        }
    }
}

impl Validity {
    /// Returns the time at which the certificate is due for renewal.
    pub fn renewal(self) -> Timestamp {
        self.not_after
            .before(self.not_after.since(self.not_before) / RENEWED_PART)
    }
}

impl Schedule {
    /// Creates the schedule for this certificate. Without one, an attempt is due at once.
    pub fn new(now: Timestamp, certificate: Option<Validity>) -> Self {
        Self {
            next: certificate.map_or(now, Validity::renewal),
            failures: 0,
        }
    }

    /// Creates the schedule at a start, with the failures before it. Failures older than the certificate do not count.
    pub fn resume(
        now: Timestamp,
        certificate: Option<Validity>,
        failures: Option<Failures>,
    ) -> Self {
        let start = Self::new(now, certificate);
        // A certificate that is not due for renewal was issued after the failures.
        let Some(failures) = failures.filter(|_| start.next <= now) else {
            return start;
        };
        // No delay is longer, so the clock was set back since.
        let is_explained = failures.next <= now.after(LONGEST_DELAY.mul_f64(1.0 + JITTER));
        Self {
            // Otherwise a wrong clock could delay the renewal by years.
            next: if is_explained { failures.next } else { now },
            failures: failures.count,
        }
    }

    /// Returns the failures since the last success.
    pub fn failures(&self) -> Option<Failures> {
        (self.failures > 0).then_some(Failures {
            count: self.failures,
            next: self.next,
        })
    }

    /// Returns the time of the next attempt.
    pub const fn next(&self) -> Timestamp {
        self.next
    }

    /// Records an issued certificate, and returns true. Returns false for a certificate that is due for renewal already: that is a failure,
    /// since otherwise attempts would follow each other without a pause.
    #[must_use]
    pub fn obtained(&mut self, now: Timestamp, certificate: Validity) -> bool {
        let is_fresh = certificate.renewal() > now;
        if is_fresh {
            // This also forgets the failures.
            *self = Self::new(now, Some(certificate));
        }
        is_fresh
    }

    /// Records a failed attempt. `random` is from 0 to 1.
    pub fn failed(&mut self, now: Timestamp, failure: Failure, random: f64) {
        let minutes = match failure {
            // The first failure costs no delay if the other challenge was not tried yet: port 443 or 80 may be blocked.
            Failure::OneChallenge if self.failures == 0 => 0,
            // The last delay repeats until an attempt succeeds.
            _ => DELAYS[self.failures.min(DELAYS.len() - 1)],
        };
        // Counted after the delay was chosen: the first failure has the first delay.
        self.failures += 1;
        self.next = now.after((MINUTE * minutes).mul_f64(1.0 + JITTER * random.clamp(0.0, 1.0)));
    }

    /// Returns the next attempt's challenge, if the CA offers one and the server can answer it: tls-alpn-01 first, then alternating.
    pub fn challenge(&self, tls_alpn: bool, http: bool) -> Option<ChallengeKind> {
        match (tls_alpn, http) {
            // After each failure, the other challenge.
            (true, true) if self.failures % 2 == 1 => Some(ChallengeKind::Http),
            (true, _) => Some(ChallengeKind::TlsAlpn),
            (false, true) => Some(ChallengeKind::Http),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(24 * 3_600);

    fn start() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn valid_for(span: Duration) -> Validity {
        Validity {
            not_before: start(),
            not_after: start().after(span),
        }
    }

    /// Times of attempts that all fail, since the first one.
    fn attempts(count: usize, failure: Failure, random: f64) -> Vec<Duration> {
        let mut schedule = Schedule::new(start(), None);
        let attempts = (0..count).map(|_| {
            let at = schedule.next();
            schedule.failed(at, failure, random);
            at.since(start())
        });
        attempts.collect()
    }

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_lifetime_is_left() {
        for (life, renewed) in [
            (90 * DAY, 60 * DAY),
            (6 * DAY, 4 * DAY),
            (24 * HOUR, 16 * HOUR),
        ] {
            let mut schedule = Schedule::new(start(), None);
            assert_eq!(schedule.next(), start());
            assert!(schedule.obtained(start(), valid_for(life)));
            assert_eq!(schedule.next(), start().after(renewed));
            // A restart changes nothing.
            assert_eq!(
                Schedule::new(start().after(DAY), Some(valid_for(life))),
                schedule
            );
        }
    }

    #[test]
    fn an_expired_certificate_is_renewed_at_once() {
        let now = start().after(91 * DAY);
        assert!(Schedule::new(now, Some(valid_for(90 * DAY))).next() < now);
    }

    #[test]
    fn there_are_at_most_four_failed_attempts_in_an_hour_and_some_on_each_day() {
        let failures = [Failure::Other, Failure::OneChallenge];
        for (failure, random) in failures
            .into_iter()
            .flat_map(|failure| [0.0, 0.5, 1.0].map(|random| (failure, random)))
        {
            let attempts = attempts(30, failure, random);
            for from in &attempts {
                let within = attempts
                    .iter()
                    .filter(|at| *at >= from && **at < *from + HOUR)
                    .count();
                assert!(within <= 4, "{within} attempts from {from:?} on");
            }
            let longest = attempts
                .windows(2)
                .map(|pair| pair[1] - pair[0])
                .max()
                .unwrap();
            assert!(longest > 5 * HOUR && longest < 7 * HOUR, "{longest:?}");
        }
        assert_eq!(
            attempts(4, Failure::Other, 0.0),
            [0, 2, 12, 32].map(|minutes| MINUTE * minutes)
        );
        assert_eq!(
            attempts(4, Failure::OneChallenge, 0.0),
            [0, 0, 10, 30].map(|minutes| MINUTE * minutes)
        );
        assert_eq!(
            attempts(3, Failure::Other, 1.0),
            [0, 150, 900].map(Duration::from_secs)
        );
    }

    #[test]
    fn a_start_after_each_attempt_or_in_it_changes_nothing() {
        let (mut schedule, mut always_up) =
            (Schedule::new(start(), None), Schedule::new(start(), None));
        for _ in 0..10 {
            let now = always_up.next();
            assert_eq!(schedule, always_up);
            for failing in [&mut schedule, &mut always_up] {
                failing.failed(now, Failure::Other, 0.5);
            }
            for later in [Duration::ZERO, MINUTE] {
                schedule = Schedule::resume(now.after(later), None, schedule.failures());
            }
        }
        let expired = Schedule::resume(
            start().after(90 * DAY),
            Some(valid_for(80 * DAY)),
            schedule.failures(),
        );
        assert_eq!(expired, schedule);
    }

    #[test]
    fn failures_before_a_certificate_and_times_that_no_delay_explains_do_not_count() {
        let failures = |next| Some(Failures { count: 9, next });
        let fresh = Some(valid_for(90 * DAY));
        assert_eq!(
            Schedule::resume(start(), fresh, failures(start())),
            Schedule::new(start(), fresh)
        );
        assert_eq!(
            Schedule::resume(start(), None, None),
            Schedule::new(start(), None)
        );
        let (late, too_late) = (start().after(400 * MINUTE), start().after(401 * MINUTE));
        assert_eq!(Schedule::resume(start(), None, failures(late)).next(), late);
        let mut set_back = Schedule::resume(start(), None, failures(too_late));
        assert_eq!(set_back.next(), start());
        set_back.failed(start(), Failure::Other, 0.0);
        assert_eq!(set_back.next(), start().after(320 * MINUTE));
    }

    #[test]
    fn a_success_ends_the_failures_and_an_old_certificate_is_none() {
        let mut schedule = Schedule::new(start(), None);
        schedule.failed(start(), Failure::Other, 0.0);
        let failing = schedule.clone();
        let now = schedule.next();
        let old = Validity {
            not_before: now.before(60 * DAY),
            not_after: now.after(30 * DAY),
        };
        assert!(!schedule.obtained(now, old));
        assert_eq!(schedule, failing);
        assert!(schedule.obtained(now, valid_for(90 * DAY)));
        assert_eq!(schedule, Schedule::new(now, Some(valid_for(90 * DAY))));
    }

    #[test]
    fn the_challenges_alternate_if_there_are_two() {
        let mut schedule = Schedule::new(start(), None);
        for expected in [
            ChallengeKind::TlsAlpn,
            ChallengeKind::Http,
            ChallengeKind::TlsAlpn,
        ] {
            assert_eq!(schedule.challenge(true, true), Some(expected));
            assert_eq!(
                schedule.challenge(true, false),
                Some(ChallengeKind::TlsAlpn)
            );
            assert_eq!(schedule.challenge(false, true), Some(ChallengeKind::Http));
            assert_eq!(schedule.challenge(false, false), None);
            schedule.failed(start(), Failure::OneChallenge, 0.0);
        }
    }
}
