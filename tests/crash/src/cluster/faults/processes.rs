//! Faults in the nodes' processes.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Fault, WAIT_LIMIT, wait_for_change};
use crate::cluster::installation::NODES;
use crate::cluster::late::LateRequests;
use crate::cluster::run::Run;

/// Delay after which a load balancer notices an unresponsive node.
const NOTICED_AFTER: Duration = Duration::from_secs(1);
/// Requests that a node forwards while it waits for its upgrade.
const ANSWERS: usize = 20;
/// Interval at which a process is checked.
const INTERVAL: Duration = Duration::from_millis(20);

/// Kills the active node, which stays down until another has taken over. In every fifth round, its supervisor restarts it at once, and it
/// takes its own lease over.
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
    Fault {
        failed: vec![active],
        writes_after,
        ..Fault::default()
    }
}

/// Kills a standby, alternately each one.
pub fn kill_standby(run: &Run<'_>, active: usize, round: u32) -> Fault {
    let standby = (active + 1 + round as usize % (NODES - 1)) % NODES;
    run.installation.nodes[standby].kill();
    let writes_after = wait_for_change(run, Instant::now());
    Fault {
        failed: vec![standby],
        writes_after,
        ..Fault::default()
    }
}

/// Stops the active node, sends it requests that it reads when it continues, and resumes it.
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
    // The node now posts a webhook that it was about to post when it was stopped: no server can check its lease and post in one step.
    run.phases.end();
    node.signal(Signal::CONT);
    let late = late.answers();
    let violations = wait_for_exit(run, active, exits, 1);
    Fault {
        failed: vec![active],
        writes_after,
        late,
        violations,
        ..Fault::default()
    }
}

/// Ends each node by SIGTERM, the standbys first, and waits until it is back, as another version if there is one. If that version migrates,
/// the active node returns with its old version.
pub fn roll(run: &Run<'_>, active: usize) -> Fault {
    let mut violations = Vec::new();
    let standbys = (1..NODES).map(|further| (active + further) % NODES);
    for node in standbys {
        violations.extend(replace(run, node));
    }
    let (began, is_mixed) = (Instant::now(), run.next.migrations.is_some());
    if is_mixed {
        violations.extend(outdate(run, active));
    }
    violations.extend(replace(run, active));
    let writes_after = wait_for_change(run, began);
    Fault {
        writes_after,
        violations,
        ended_again: is_mixed.then_some(active),
        ..Fault::default()
    }
}

/// Replaces a node by the next version, and waits until all are back.
fn replace(run: &Run<'_>, number: usize) -> Vec<String> {
    run.installation.nodes[number].upgrade(run.next.clone());
    let violations = terminate(run, number);
    run.installation.settle();
    violations
}

/// Ends the active node; another one replaces it and migrates. The first returns, waits for its upgrade, and forwards requests.
fn outdate(run: &Run<'_>, active: usize) -> Vec<String> {
    let before = schema(run);
    let mut violations = terminate(run, active);
    run.installation.settle_but(Some(active));
    if schema(run) != before + 1 {
        violations.push(format!("the schema is {} after {before}", schema(run)));
    }
    let (began, first) = (Instant::now(), run.journal.len());
    let answers = || {
        let entries = run.journal.since(first);
        entries
            .iter()
            .filter(|entry| entry.node == active && entry.acknowledged().is_some())
            .count()
    };
    while run.passes_on && answers() < ANSWERS {
        if began.elapsed() > WAIT_LIMIT {
            violations.push(format!(
                "the outdated node {active} has passed only {} requests on",
                answers()
            ));
            break;
        }
        thread::sleep(INTERVAL);
    }
    violations
}

/// Returns the records' schema version.
fn schema(run: &Run<'_>) -> i64 {
    run.installation
        .postgres
        .run("SELECT version FROM schema_version")
        .parse()
        .expect("a number")
}

/// Ends a node by SIGTERM.
fn terminate(run: &Run<'_>, number: usize) -> Vec<String> {
    let node = &run.installation.nodes[number];
    let exits = node.exits().len();
    node.signal(Signal::TERM);
    wait_for_exit(run, number, exits, 0)
}

/// Waits until a process has ended, and checks its exit code.
pub fn wait_for_exit(run: &Run<'_>, number: usize, exits: usize, expected: i32) -> Vec<String> {
    let began = Instant::now();
    loop {
        if let Some(status) = run.installation.nodes[number].exits().get(exits) {
            let is_right = status.code() == Some(expected);
            let wrong = (!is_right)
                .then(|| format!("node {number} ended with {status} instead of {expected}"));
            return wrong.into_iter().collect();
        }
        if began.elapsed() > WAIT_LIMIT {
            return vec![format!(
                "node {number} has not ended after {} s",
                WAIT_LIMIT.as_secs()
            )];
        }
        thread::sleep(INTERVAL);
    }
}
