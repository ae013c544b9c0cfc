//! Kills a server, or alternately it and its PostgreSQL, at random moments while clients use it, and checks afterwards that it kept
//! everything that it had acknowledged. [`cluster`] does so with three nodes, and with further faults.
//!
//! The clients record each request and its response in a journal, and the receivers each webhook. After the last kill the server runs until
//! nothing is pending, and the checks compare the journal and the receivers' logs with the API's responses. They depend only on
//! the contract, not on the server's code.
//!
//! ```text
//! clients ──▶ journal ───┐
//! server ──▶ receivers ──┼──▶ checks ──▶ violations
//!    └─────▶ records ────┘
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod api;
mod checks;
mod clients;
pub mod cluster;
mod journal;
mod receivers;
mod records;
mod server;
mod service;
mod single;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::Api;
use clients::{Client, EndpointOwner};
use journal::Journal;
use receivers::Receiver;
use records::Records;
use server::Deployment;
use single::SingleServer;
pub use test_postgres::Engine;
use test_postgres::{Cluster, ClusterOptions, Database};

/// Options for a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program that is tested.
    pub binary: PathBuf,
    /// Storage for the records.
    pub engine: Engine,
    /// Number of kills; with PostgreSQL, every second one kills PostgreSQL.
    pub kills: u32,
    /// Concurrent clients.
    pub clients: u32,
    /// Shortest and longest time before a kill.
    pub uptime: (Duration, Duration),
    /// Number of additional acknowledged requests before a kill, which takes longer on a busy machine.
    pub least_acknowledged: usize,
    /// Seed for all choices of the clients and the kills. Runs with one seed differ only in timing.
    pub seed: u64,
}

/// A run's findings.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Requests from the clients.
    pub requests: usize,
    /// Requests that were acknowledged with a 2xx.
    pub acknowledged: usize,
    /// Requests without a response.
    pub unanswered: usize,
    /// Acknowledged requests by action, such as `CreateRoom`.
    pub actions: BTreeMap<String, usize>,
    /// Webhooks at the receivers, including repeated ones.
    pub webhooks: usize,
    /// Rooms in the records at the end.
    pub rooms: usize,
    /// Sessions in the records at the end.
    pub sessions: usize,
    /// Deliveries in the records at the end.
    pub deliveries: usize,
    /// Broken promises; empty if the server kept all.
    pub violations: Vec<String>,
}

/// Runs the whole test. `progress` is called after each kill with its number.
///
/// # Panics
/// The server does not start, or pending work does not finish after the last kill.
pub fn run(options: &Options, mut progress: impl FnMut(u32)) -> Report {
    let postgres =
        (options.engine == Engine::Postgres).then(|| Cluster::start(ClusterOptions::default()));
    let database = postgres.as_ref().map(Cluster::database);
    let deployment = Deployment::new(options.binary.clone(), database.as_ref().map(Database::url));
    let journal = Arc::new(Journal::default());
    let mut random = fastrand::Rng::with_seed(options.seed);
    let running = deployment.start();
    let api = running.address.api();
    // One receiver accepts everything, in order; one refuses some requests, which are then repeated.
    let receivers = [0.0, 0.1].map(|refuses| {
        let (seed, lifetime) = (random.u64(..), deployment.lifetime());
        Receiver::start(refuses, seed, lifetime, |url| api.create_endpoint(url))
    });
    let mut endpoints = receivers.iter().map(EndpointOwner::new);
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..options.clients)
        .map(|number| {
            Client::spawn(
                number,
                random.u64(..),
                SingleServer::new(deployment.clone()),
                endpoints.next(),
                &journal,
                &stop,
            )
        })
        .collect();
    let mut running = Some(running);
    for kill in 1..=options.kills {
        let (shortest, longest) = options.uptime;
        let acknowledged = journal.acknowledged();
        std::thread::sleep(shortest + (longest - shortest).mul_f64(random.f64()));
        let until = Instant::now() + Duration::from_secs(60);
        while journal.acknowledged() < acknowledged + options.least_acknowledged {
            assert!(
                Instant::now() < until,
                "too few requests are acknowledged within a minute"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        match &postgres {
            Some(postgres) if kill % 2 == 0 => {
                deployment.without_database(|| {
                    postgres.kill();
                    postgres.start_again();
                });
            }
            _ => {
                deployment.kill(running.take().expect("a running server"));
                running = Some(deployment.start());
            }
        }
        progress(kill);
    }
    let running = running.expect("a running server");
    // The clients' final repetitions need a ready server.
    running.wait_until_ready();
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().expect("a client that does not panic");
    }
    // The run ends the remaining rooms; none of them may end before.
    deployment.wait_for_lifetime();
    let records = settle(&running.address.api());
    report(&journal, &receivers, &records, &deployment)
}

/// Ends all rooms, waits until every delivery is final, and reads the records.
fn settle(api: &Api) -> Records {
    for room in records::open_rooms(api) {
        api.end_room(&room);
    }
    let until = Instant::now() + Duration::from_secs(300);
    while records::pending_deliveries(api) > 0 {
        assert!(
            Instant::now() < until,
            "deliveries are still pending after five minutes"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    Records::read(api)
}

fn report(
    journal: &Journal,
    receivers: &[Receiver],
    records: &Records,
    deployment: &Deployment,
) -> Report {
    let entries = journal.entries();
    Report {
        requests: entries.len(),
        acknowledged: journal.acknowledged(),
        unanswered: entries
            .iter()
            .filter(|entry| entry.answer.is_none())
            .count(),
        actions: journal::acknowledged_by_action(&entries),
        webhooks: receivers
            .iter()
            .map(|receiver| receiver.received().len())
            .sum(),
        rooms: records.rooms.len(),
        sessions: records.sessions.len(),
        deliveries: records.deliveries.len(),
        violations: checks::of_server(&entries, receivers, records, &deployment.lifetimes()),
    }
}
