//! Counts over the last day, for the overview's plots: one sample every five minutes, since the server's start.

use std::collections::VecDeque;
use std::time::Duration;

use conclave_db::Totals;
use conclave_model::Timestamp;
use parking_lot::Mutex;

/// Interval between two samples.
pub const INTERVAL: Duration = Duration::from_secs(300);
/// Samples per day.
pub const SAMPLES: usize = 288;

/// Samples of the last day, oldest first.
#[derive(Debug, Default)]
// In memory: after a restart, the plots start anew.
pub struct History(Mutex<VecDeque<Sample>>);

/// Counts at one time.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Sample time.
    pub at: Timestamp,
    /// Counts at that time.
    pub totals: Totals,
}

impl History {
    /// Adds a sample, and drops samples older than a day.
    pub fn add(&self, sample: Sample) {
        let mut samples = self.0.lock();
        // One day at that interval, so the memory is bounded.
        if samples.len() == SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns the samples, oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        self.0.lock().iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_samples_is_kept() {
        let history = History::default();
        for at in 0..400 {
            history.add(Sample {
                at: Timestamp::from_millis(at),
                totals: Totals::default(),
            });
        }
        let samples = history.samples();
        assert_eq!(
            (samples.len(), samples[0].at),
            (SAMPLES, Timestamp::from_millis(112))
        );
    }
}
