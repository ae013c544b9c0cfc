//! The faults: each function causes one, waits until it is over, and returns its observations.

mod database;
mod links;
mod processes;

use std::thread;
use std::time::{Duration, Instant};

use super::late::LateRequest;
use super::run::Run;
use super::scenario::Scenario;

/// Time limit for a change.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// Interval at which the journal is checked.
const INTERVAL: Duration = Duration::from_millis(5);

/// Observations during a fault.
#[derive(Default)]
pub struct Fault {
    /// The affected nodes.
    pub failed: Vec<usize>,
    /// The node whose process exited once more than others.
    pub ended_again: Option<usize>,
    /// Time until changes succeeded, counted from when they had to.
    pub writes_after: Option<Duration>,
    /// Requests sent to a node after another had taken over.
    pub late: Vec<LateRequest>,
    pub violations: Vec<String>,
}

/// Causes a scenario's fault in a cluster whose active node is `active`.
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

/// Waits for a change that was sent after `since` and acknowledged. Returns its delay after `since`.
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
