//! PostgreSQL faults.

use std::thread;
use std::time::Instant;

use test_postgres::Proxy;

use super::{Fault, wait_for_change};
use crate::cluster::run::Run;

pub fn kill(run: &Run<'_>) -> Fault {
    run.installation.postgres.kill();
    run.installation.postgres.start_again();
    Fault {
        writes_after: wait_for_change(run, Instant::now()),
        ..Fault::default()
    }
}

/// Blocks all bytes between the nodes and the database. No connection ends.
pub fn hang(run: &Run<'_>) -> Fault {
    let links = || {
        run.installation
            .nodes
            .iter()
            .flat_map(|node| &node.links.database)
    };
    links().for_each(Proxy::stall);
    thread::sleep(run.duration);
    links().for_each(Proxy::resume);
    Fault {
        writes_after: wait_for_change(run, Instant::now()),
        ..Fault::default()
    }
}

/// Kills the server that accepts writes and promotes the other; then a new standby follows that.
pub fn promote(run: &Run<'_>) -> Fault {
    run.installation.postgres.kill();
    run.installation.postgres.promote();
    let writes_after = wait_for_change(run, Instant::now());
    let (place, address) = run.installation.postgres.replace_lost();
    run.installation
        .nodes
        .iter()
        .for_each(|node| node.links.database[place].lead_to(address));
    Fault {
        writes_after,
        ..Fault::default()
    }
}
