//! What a core takes from the program that runs on it: the kernel's own threads, interrupts, other guests of the machine.

use std::thread;
use std::time::{Duration, Instant};

use super::cores::stay_on;
use crate::BenchError;

/// The moments at which a program that always runs was kept from it.
pub struct Stalls {
    /// The share of all moments at which it would have to wait for longer than the limit.
    pub share: f64,
    pub longest: Duration,
}

/// Keeps an otherwise idle core busy for a time, and looks for gaps.
pub fn measure(core: usize, time: Duration, limit: Duration) -> Result<Stalls, BenchError> {
    let spin = move || {
        stay_on(&[core])?;
        let begun = Instant::now();
        let (mut last, mut beyond, mut longest) = (begun, Duration::ZERO, Duration::ZERO);
        while last.duration_since(begun) < time {
            let now = Instant::now();
            let gap = now.duration_since(last);
            // What arrives in the last moments of a gap waits for less than the limit.
            beyond += gap.saturating_sub(limit);
            longest = longest.max(gap);
            last = now;
        }
        Ok(Stalls { share: beyond.as_secs_f64() / time.as_secs_f64(), longest })
    };
    thread::spawn(spin).join().map_err(|_| "the thread that looks for stalls panicked")?
}
