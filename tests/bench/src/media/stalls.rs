//! Time that a core takes from its program: the kernel's own threads, interrupts, the machine's other guests.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::cores::stay_on;
use crate::BenchError;
use crate::process::stat_fields;

/// Moments at which a busy program was interrupted.
pub struct Stalls {
    /// Share of moments at which the wait would exceed the limit.
    pub share: f64,
    pub longest: Duration,
}

/// Keeps an otherwise idle core busy for a time, and measures gaps.
pub fn measure(core: usize, time: Duration, limit: Duration) -> Result<Stalls, BenchError> {
    let spin = move || {
        stay_on(&[core])?;
        let begun = Instant::now();
        let (mut last, mut beyond, mut longest) = (begun, Duration::ZERO, Duration::ZERO);
        while last.duration_since(begun) < time {
            let now = Instant::now();
            let gap = now.duration_since(last);
            // A packet that arrives in a gap's last moments waits for less than the limit.
            beyond += gap.saturating_sub(limit);
            longest = longest.max(gap);
            last = now;
        }
        Ok(Stalls {
            share: beyond.as_secs_f64() / time.as_secs_f64(),
            longest,
        })
    };
    thread::spawn(spin)
        .join()
        .map_err(|_| "the thread that looks for stalls panicked")?
}

/// The kernel's own threads, which compete with programs for a core, except the threads that handle the programs' packets.
pub struct KernelThreads {
    /// For each, the file with its running time, and the last value.
    times: Vec<(PathBuf, Duration)>,
}

impl KernelThreads {
    /// Finds the current threads: none on a system that does not show them.
    pub fn find() -> Result<Self, BenchError> {
        let processes = fs::read_dir("/proc")?
            .filter_map(Result::ok)
            .map(|entry| entry.path());
        // The second field is the parent, whose number is 2 for all of them.
        let is_kernel =
            |stat: &str| stat_fields(stat).nth(1) == Some("2") && !stat.contains("(ksoftirqd/");
        let threads = processes.filter(|path| {
            fs::read_to_string(path.join("stat")).is_ok_and(|stat| is_kernel(&stat))
        });
        Ok(Self {
            times: threads
                .map(|path| (path.join("schedstat"), Duration::ZERO))
                .collect(),
        })
    }

    /// Returns their total running time on all cores. An ended thread's time stays.
    pub fn time(&mut self) -> Duration {
        for (path, time) in &mut self.times {
            let read = fs::read_to_string(path).ok();
            let nanoseconds = read.and_then(|text| text.split_whitespace().next()?.parse().ok());
            *time = nanoseconds.map_or(*time, Duration::from_nanos);
        }
        self.times.iter().map(|(_, time)| *time).sum()
    }
}
