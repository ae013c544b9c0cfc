//! Link faults: all connections end, and new ones at once.

use std::thread;
use std::time::Instant;

use test_postgres::Proxy;

use super::processes::wait_for_exit;
use super::{Fault, wait_for_change};
use crate::cluster::late::LateRequests;
use crate::cluster::node::Links;
use crate::cluster::run::Run;

/// Cuts the active node off from the database: another takes over, and the first one ends once it notices that.
pub fn cut_database(run: &Run<'_>, active: usize, round: u32) -> Fault {
    let node = &run.installation.nodes[active];
    let exits = node.exits().len();
    node.links.database.iter().for_each(Proxy::refuse);
    let began = Instant::now();
    let writes_after = wait_for_change(run, began);
    let api = node.addresses().expect("a node that runs").api;
    let late = LateRequests::send(api, &run.installation.key, round);
    thread::sleep(run.duration.saturating_sub(began.elapsed()));
    node.links.database.iter().for_each(Proxy::accept);
    let violations = wait_for_exit(run, active, exits, 1);
    Fault {
        failed: vec![active],
        writes_after,
        late: late.answers(),
        violations,
        ..Fault::default()
    }
}

/// Cuts the active node's other links; it stays active.
pub fn cut(run: &Run<'_>, active: usize, links: impl Fn(&Links) -> Vec<&Proxy>) -> Fault {
    let cut = links(&run.installation.nodes[active].links);
    cut.iter().for_each(|link| link.refuse());
    let began = Instant::now();
    let writes_after = wait_for_change(run, began);
    thread::sleep(run.duration.saturating_sub(began.elapsed()));
    cut.iter().for_each(|link| link.accept());
    Fault {
        writes_after,
        ..Fault::default()
    }
}
