//! The faults: each makes one, waits until it is over, and tells what it has seen.

mod database;
mod links;
mod processes;

use std::thread;
use std::time::{Duration, Instant};

use super::late::LateRequest;
use super::run::Run;
use super::scenario::Scenario;

/// How long a change is waited for.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// The interval at which the journal is looked at.
const INTERVAL: Duration = Duration::from_millis(5);

/// What a fault has shown.
#[derive(Default)]
pub struct Fault {
    /// The nodes that it was for.
    pub failed: Vec<usize>,
    /// The node whose process ended once more than others.
    pub ended_again: Option<usize>,
    /// From when on changes had to succeed again, and how long it took.
    pub writes_after: Option<Duration>,
    /// What a node was asked to do after another had taken over.
    pub late: Vec<LateRequest>,
    pub violations: Vec<String>,
}

/// Makes the fault of a scenario to a cluster whose active node is `active`.
pub fn make(scenario: Scenario, run: &Run<'_>, active: usize, round: u32) -> Fault {
    match scenario {
        Scenario::Kill | Scenario::Load => processes::kill(run, active, round),
        Scenario::KillStandby => processes::kill_standby(run, active, round),
        Scenario::Pause => processes::pause(run, active, round),
        Scenario::Rolling => processes::roll(run, active),
        Scenario::CutDatabase => links::cut_database(run, active, round),
        Scenario::CutNodes => links::cut(run, active, |links| vec![&links.nodes]),
        Scenario::CutLivekit => {
            links::cut(run, active, |links| vec![&links.livekit, &links.webhooks])
        }
        Scenario::PostgresKill => database::kill(run),
        Scenario::PostgresHang => database::hang(run),
        Scenario::PostgresPromote => database::promote(run),
    }
}

/// Waits for a change that was sent after `since` and acknowledged. Returns how long after `since` that was.
fn wait_for_change(run: &Run<'_>, since: Instant) -> Option<Duration> {
    let first = run.entries_of_round;
    loop {
        let entries = run.journal.since(first);
        let changes = entries
            .iter()
            .filter(|entry| entry.sent >= since && entry.is_acknowledged_change());
        if let Some(ended) = changes.map(|entry| entry.ended).min() {
            run.phases.begin();
            return Some(ended - since);
        }
        if since.elapsed() > WAIT_LIMIT {
            return None;
        }
        thread::sleep(INTERVAL);
    }
}
