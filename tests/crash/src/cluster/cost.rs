//! A standby's cost while it waits.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use serde_json::{Value, json};

use super::installation::{Installation, NODES};
use super::{ClusterOptions, audit};

/// Measurement duration.
const DURATION: Duration = Duration::from_secs(20);
/// Rest after the nodes' start.
const REST: Duration = Duration::from_secs(5);
/// Database session limit.
const MOST_SESSIONS: u32 = 1;
/// Memory limit, in KiB.
const MOST_MEMORY: u64 = 40 << 10;
/// Limit as a fraction of a core.
const MOST_CPU: f64 = 0.005;

/// A standby's resource usage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StandbyCost {
    /// Node number.
    pub node: usize,
    /// Database sessions.
    pub sessions: u32,
    /// Resident memory in KiB.
    pub memory: u64,
    /// CPU time as a fraction of elapsed time.
    pub cpu: f64,
}

impl StandbyCost {
    /// Returns violated limits. The limits on memory and time assume an optimized program on an otherwise idle machine.
    #[must_use]
    pub fn violations(&self, is_timed: bool) -> Vec<String> {
        let Self {
            node,
            sessions,
            memory,
            cpu,
        } = *self;
        let mut violations = Vec::new();
        if sessions > MOST_SESSIONS {
            violations.push(format!(
                "the standby {node} has {sessions} sessions with the database"
            ));
        }
        if is_timed && memory > MOST_MEMORY {
            violations.push(format!("the standby {node} uses {memory} KiB"));
        }
        if is_timed && cpu > MOST_CPU {
            violations.push(format!(
                "the standby {node} uses {:.2} % of a core",
                cpu * 100.0
            ));
        }
        violations
    }

    /// Returns the cost as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"node": self.node, "sessions": self.sessions, "memory_kib": self.memory, "cpu": self.cpu})
    }
}

/// Measures an idle cluster's standbys.
///
/// # Panics
/// A node does not run.
#[must_use]
pub fn measure(options: &ClusterOptions) -> Vec<StandbyCost> {
    let installation = Installation::start(options, false, audit::begin);
    thread::sleep(REST);
    let (active, _) = installation.settle();
    let standbys: Vec<_> = (0..NODES).filter(|node| *node != active).collect();
    let used = |node: usize| {
        cpu_time(
            installation.nodes[node]
                .process_id()
                .expect("a node that runs"),
        )
    };
    let (began, before) = (
        Instant::now(),
        standbys.iter().map(|node| used(*node)).collect::<Vec<_>>(),
    );
    thread::sleep(options.duration.unwrap_or(DURATION));
    let passed = began.elapsed().as_secs_f64();
    let cost = |(node, before): (&usize, Duration)| {
        let name = installation.nodes[*node].session_name();
        let sessions =
            format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'");
        StandbyCost {
            node: *node,
            sessions: installation
                .postgres
                .run(&sessions)
                .parse()
                .expect("a number"),
            memory: memory(
                installation.nodes[*node]
                    .process_id()
                    .expect("a node that runs"),
            ),
            cpu: (used(*node) - before).as_secs_f64() / passed,
        }
    };
    standbys.iter().zip(before).map(cost).collect()
}

/// Returns a process's CPU time on all cores.
fn cpu_time(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("a process that runs");
    // The program's name, in parentheses, may contain spaces. After it, the fields 12 and 13 are user and system time.
    let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().expect("a number"))
        .sum();
    Duration::from_secs(ticks) / u32::try_from(clock_ticks_per_second()).expect("a small number")
}

/// Returns a process's resident memory in KiB.
pub(super) fn memory(process: u32) -> u64 {
    let status =
        fs::read_to_string(format!("/proc/{process}/status")).expect("a process that runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("its memory");
    line.split_whitespace()
        .next()
        .and_then(|size| size.parse().ok())
        .expect("a number")
}

#[cfg(test)]
mod tests {
    use super::StandbyCost;

    #[test]
    fn a_standby_that_uses_more_than_promised_is_found() {
        let cost = StandbyCost {
            node: 1,
            sessions: 1,
            memory: 30 << 10,
            cpu: 0.002,
        };
        assert!(cost.violations(true).is_empty());
        for more in [
            StandbyCost {
                sessions: 2,
                ..cost
            },
            StandbyCost {
                memory: 41 << 10,
                ..cost
            },
            StandbyCost { cpu: 0.006, ..cost },
        ] {
            assert_eq!(more.violations(true).len(), 1, "{more:?}");
        }
        assert!(
            StandbyCost {
                memory: 90 << 10,
                cpu: 0.1,
                ..cost
            }
            .violations(false)
            .is_empty()
        );
        assert_eq!(
            StandbyCost {
                sessions: 2,
                ..cost
            }
            .violations(false)
            .len(),
            1
        );
    }
}
