//! The circuit: a plane that keeps failing is not asked for a while, so that callers hear at once what they would otherwise
//! wait for.
//!
//! ```text
//! closed ── failures in a row ──▶ open ── its time is over ──▶ half-open: one is let through
//!    ▲                              ▲                               │
//!    │                              └────────── it fails ───────────┤
//!    └───────────────────────────────────────── it is answered ─────┘
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conclave_model::Timestamp;

/// When a circuit opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitSettings {
    /// Failures in a row that open it.
    pub failures: u32,
    /// How long it stays open before one call is let through.
    pub open: Duration,
}

/// A circuit in front of something that may fail.
#[derive(Debug)]
pub(super) struct Circuit {
    settings: CircuitSettings,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Closed {
        failures: u32,
    },
    /// Half-open is this too, once its time is over.
    Open {
        until: Timestamp,
    },
}

impl Circuit {
    pub fn new(settings: CircuitSettings) -> Self {
        Self { settings, state: Mutex::new(State::Closed { failures: 0 }) }
    }

    /// Whether a call may be made; if not, how long until one may. Who is let through a circuit whose time is over is the
    /// one that tries: the others go on waiting.
    pub fn admit(&self, now: Timestamp) -> Result<(), Duration> {
        let mut state = self.lock();
        match *state {
            State::Open { until } if now < until => Err(until.since(now)),
            State::Open { .. } => {
                *state = self.open_from(now);
                Ok(())
            }
            State::Closed { .. } => Ok(()),
        }
    }

    /// A call was answered.
    pub fn answered(&self) {
        *self.lock() = State::Closed { failures: 0 };
    }

    /// A call was not.
    pub fn failed(&self, now: Timestamp) {
        let mut state = self.lock();
        *state = match *state {
            State::Closed { failures } if failures + 1 < self.settings.failures => {
                State::Closed { failures: failures + 1 }
            }
            State::Closed { .. } => {
                let CircuitSettings { failures, open } = self.settings;
                log::warn!(
                    "the media plane has left {failures} calls in a row unanswered, and is left alone for {open:?}"
                );
                self.open_from(now)
            }
            State::Open { .. } => self.open_from(now),
        };
    }

    /// A look at the health went well. It is not what calls ask for, so it counts for nothing but the one try that ends the
    /// open time: a plane may say that it is well and answer nothing else. Says whether calls are made.
    pub fn looked_well(&self, now: Timestamp) -> bool {
        let mut state = self.lock();
        if matches!(*state, State::Open { until } if until <= now) {
            *state = State::Closed { failures: 0 };
        }
        matches!(*state, State::Closed { .. })
    }

    /// Until when no call is made.
    pub fn open_until(&self) -> Option<Timestamp> {
        match *self.lock() {
            State::Open { until } => Some(until),
            State::Closed { .. } => None,
        }
    }

    fn open_from(&self, now: Timestamp) -> State {
        State::Open { until: now.after(self.settings.open) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: CircuitSettings = CircuitSettings { failures: 3, open: Duration::from_secs(5) };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_try_when_its_time_is_over() {
        let circuit = Circuit::new(SETTINGS);
        for _ in 0..2 {
            circuit.failed(at(0));
            circuit.failed(at(0));
            assert_eq!(circuit.admit(at(0)), Ok(()));
            circuit.answered();
        }
        for _ in 0..3 {
            circuit.failed(at(1));
        }
        assert_eq!(circuit.admit(at(2)), Err(Duration::from_secs(4)));
        assert!(!circuit.looked_well(at(2)), "health alone does not shorten it");
        assert_eq!((circuit.admit(at(6)), circuit.admit(at(6))), (Ok(()), Err(Duration::from_secs(5))));
        circuit.failed(at(7));
        assert_eq!(circuit.open_until(), Some(at(12)));
        assert!(circuit.looked_well(at(12)));
        assert_eq!((circuit.admit(at(12)), circuit.admit(at(12))), (Ok(()), Ok(())));
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Answered,
        Failed,
        LookedWell,
        Wait(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            1 => Just(Step::Answered),
            3 => Just(Step::Failed),
            1 => Just(Step::LookedWell),
            1 => (0..4_i64).prop_map(Step::Wait),
        ]
    }

    proptest! {
        /// It refuses only after enough failures in a row, never longer than its time, and lets one try a time.
        #[test]
        fn whatever_happens_it_refuses_neither_too_early_nor_too_long(steps in prop::collection::vec(step(), 0..60)) {
            let circuit = Circuit::new(SETTINGS);
            let (mut now, mut in_a_row, mut last_bad) = (0, 0, 0);
            for step in steps {
                match step {
                    Step::Answered => { circuit.answered(); in_a_row = 0; }
                    Step::Failed => { circuit.failed(at(now)); in_a_row += 1; last_bad = now; }
                    Step::LookedWell => { if circuit.looked_well(at(now)) && in_a_row >= SETTINGS.failures { in_a_row = 0; } }
                    Step::Wait(seconds) => now += seconds,
                }
                match circuit.admit(at(now)) {
                    Ok(()) if in_a_row >= SETTINGS.failures => {
                        prop_assert!(at(last_bad).after(SETTINGS.open) <= at(now));
                        prop_assert!(circuit.admit(at(now)).is_err(), "only one tries");
                        last_bad = now;
                    }
                    Ok(()) => {}
                    Err(wait) => {
                        prop_assert!(in_a_row >= SETTINGS.failures);
                        prop_assert!(wait <= SETTINGS.open && at(last_bad).after(SETTINGS.open) >= at(now).after(wait));
                    }
                }
            }
        }
    }
}
