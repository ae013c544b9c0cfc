//! An attack's measured effect, and the promised limits.

use std::time::Duration;

use serde_json::{Value, json};

use super::neighbour::Observed;

/// Limit for the other project's p99 request latency, unless twice the latency without an attack is longer.
const API: Duration = Duration::from_millis(50);
/// Limit for the other project's join time.
const JOIN: Duration = Duration::from_millis(500);
/// Limit for its audio gaps.
const GAP: Duration = Duration::from_millis(200);
/// Limit for the server's additional memory, in KiB.
const MEMORY: f64 = 100.0 * 1024.0;

/// Measurements before, during and after an attack.
pub struct Outcome {
    pub attack: String,
    /// The attacker's counts.
    pub attacker: Value,
    pub quiet: Observed,
    pub during: Observed,
    pub afterwards: Observed,
    /// Resident memory before, at most, and afterwards, in KiB.
    pub memory: [f64; 3],
}

impl Outcome {
    /// Returns the broken promises.
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (when, seen) in [("during", &self.during), ("afterwards", &self.afterwards)] {
            let measured = [
                (
                    "p99 of requests",
                    seen.api.p99(),
                    API.max(2 * self.quiet.api.p99()),
                ),
                ("a join", seen.joins.longest, JOIN),
                ("a gap of sound", seen.longest_gap, GAP),
            ];
            let exceeding = measured.into_iter().filter(|(_, time, limit)| time > limit);
            broken.extend(exceeding.map(|(what, time, _)| format!("{when}: {what} {time:.1?}")));
            if seen.api.refused > 0 {
                broken.push(format!("{when}: {} requests are refused", seen.api.refused));
            }
            if seen.joins.failed > 0 {
                broken.push(format!("{when}: {} joins fail", seen.joins.failed));
            }
        }
        let [before, most, _] = self.memory;
        if most > before + MEMORY {
            broken.push(format!(
                "memory grows by {:.0} MiB",
                (most - before) / 1024.0
            ));
        }
        broken
    }

    pub fn to_json(&self) -> Value {
        json!({
            "attack": self.attack, "attacker": self.attacker, "quiet": self.quiet.to_json(), "during": self.during.to_json(),
            "afterwards": self.afterwards.to_json(), "memory_kib": self.memory, "broken": self.broken(),
        })
    }

    pub fn print(&self) {
        println!("  {:<12} {:>10} {:>10} {:>10}", "", "p99", "join", "gap");
        for (when, seen) in [
            ("quiet", &self.quiet),
            ("during", &self.during),
            ("afterwards", &self.afterwards),
        ] {
            println!(
                "  {when:<12} {:>7.1} ms {:>7.0} ms {:>7.0} ms",
                milliseconds(seen.api.p99()),
                milliseconds(seen.joins.longest),
                milliseconds(seen.longest_gap),
            );
        }
        let [before, most, after] = self.memory.map(|kib| (kib / 1024.0).round());
        println!(
            "  memory {before} MiB before, at most {most}, {after} afterwards; the attacker: {}",
            self.attacker
        );
        self.broken()
            .iter()
            .for_each(|promise| println!("  BROKEN {promise}"));
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
