//! Faults of the nodes' processes.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Fault, WAIT_LIMIT, wait_for_change};
use crate::cluster::installation::NODES;
use crate::cluster::late::LateRequests;
use crate::cluster::run::Run;

/// After how long a load balancer notices that a node does not answer.
const NOTICED_AFTER: Duration = Duration::from_secs(1);
/// How often a process is looked at.
const INTERVAL: Duration = Duration::from_millis(20);

/// Kills the active node, which stays away until another one has taken over. In every fifth round, its supervisor starts it again at
/// once, and it takes its lease over.
pub fn kill(run: &Run<'_>, active: usize, round: u32) -> Fault {
    let node = &run.installation.nodes[active];
    let stays_away = !round.is_multiple_of(5);
    if stays_away {
        node.kill_for_now();
    } else {
        node.kill();
    }
    let writes_after = wait_for_change(run, Instant::now());
    if stays_away {
        node.start();
    }
    Fault { failed: vec![active], writes_after, ..Fault::default() }
}

/// Kills one of the standbys in turn.
pub fn kill_standby(run: &Run<'_>, active: usize, round: u32) -> Fault {
    let standby = (active + 1 + round as usize % (NODES - 1)) % NODES;
    run.installation.nodes[standby].kill();
    let writes_after = wait_for_change(run, Instant::now());
    Fault { failed: vec![standby], writes_after, ..Fault::default() }
}

/// Stops the active node, sends it requests that it finds when it goes on, and lets it go on.
pub fn pause(run: &Run<'_>, active: usize, round: u32) -> Fault {
    let node = &run.installation.nodes[active];
    let exits = node.exits().len();
    node.signal(Signal::STOP);
    let stopped = Instant::now();
    thread::sleep(NOTICED_AFTER);
    node.avoid();
    let writes_after = wait_for_change(run, stopped);
    let api = node.addresses().expect("a node that runs").api;
    let late = LateRequests::send(api, &run.installation.key, round);
    thread::sleep(run.duration.saturating_sub(stopped.elapsed()));
    node.signal(Signal::CONT);
    let late = late.answers();
    let violations = wait_for_exit(run, active, exits, 1);
    Fault { failed: vec![active], writes_after, late, violations }
}

/// Ends each node by SIGTERM, the standbys first, and waits until it is back, as another version if there is one.
pub fn roll(run: &Run<'_>, active: usize) -> Fault {
    let mut violations = Vec::new();
    let standbys = (1..NODES).map(|further| (active + further) % NODES);
    for node in standbys {
        violations.extend(replace(run, node));
    }
    let began = Instant::now();
    violations.extend(replace(run, active));
    let writes_after = wait_for_change(run, began);
    Fault { writes_after, violations, ..Fault::default() }
}

/// Ends a node by SIGTERM, and waits until all are back.
fn replace(run: &Run<'_>, number: usize) -> Vec<String> {
    let node = &run.installation.nodes[number];
    let exits = node.exits().len();
    run.next.iter().for_each(|next| node.upgrade(next));
    node.signal(Signal::TERM);
    let violations = wait_for_exit(run, number, exits, 0);
    run.installation.settle();
    violations
}

/// Waits until a process has ended, and checks its exit code.
pub fn wait_for_exit(run: &Run<'_>, number: usize, exits: usize, expected: i32) -> Vec<String> {
    let began = Instant::now();
    loop {
        if let Some(status) = run.installation.nodes[number].exits().get(exits) {
            let is_right = status.code() == Some(expected);
            let wrong = (!is_right).then(|| format!("node {number} ended with {status} instead of {expected}"));
            return wrong.into_iter().collect();
        }
        if began.elapsed() > WAIT_LIMIT {
            return vec![format!("node {number} has not ended after {} s", WAIT_LIMIT.as_secs())];
        }
        thread::sleep(INTERVAL);
    }
}
