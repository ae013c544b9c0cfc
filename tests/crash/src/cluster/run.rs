//! A run: rounds of one scenario while clients work, and the final checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use super::balancer::Balancer;
use super::installation::{Installation, NODES};
use super::late::LateRequest;
use super::phases::Phases;
use super::process::Version;
use super::report::ClusterReport;
use super::round::Round;
use super::scenario::Scenario;
use super::{ClusterOptions, audit, faults, load};
use crate::checks::cluster::Evidence;
use crate::clients::{Client, EndpointOwner};
use crate::journal::Journal;
use crate::receivers::Receiver;
use crate::records::Records;
use crate::{checks, settle};

/// Additional acknowledged requests before each fault.
const LEAST_ACKNOWLEDGED: usize = 60;
/// Readiness probe interval of a load balancer in scenarios that stop nodes.
const PROBES: Duration = Duration::from_millis(500);
/// How long clients work before a fault, at least and at most.
const UPTIME: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(1_500));
/// Time limit for all pending work.
const WAIT_LIMIT: Duration = Duration::from_secs(120);
/// Interval at which it is checked.
const INTERVAL: Duration = Duration::from_millis(20);

/// Parts of a run that the faults need.
pub struct Run<'a> {
    pub installation: &'a Installation,
    pub journal: &'a Journal,
    pub phases: &'a Phases,
    /// Whether nodes forward requests.
    pub passes_on: bool,
    /// Duration of a stop or a cut.
    pub duration: Duration,
    /// Replacement for the program.
    pub next: Version,
    /// Journal entries at the round's start.
    pub entries_of_round: usize,
}

/// Runs a scenario's rounds. `progress` is called after each.
///
/// # Panics
/// The nodes do not become one active node and standbys, or pending work does not finish.
pub fn run(
    scenario: Scenario,
    options: &ClusterOptions,
    mut progress: impl FnMut(&Round, usize),
) -> ClusterReport {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let is_replicated = scenario == Scenario::PostgresPromote;
    let mut installation = Installation::start(options, is_replicated, |database| {
        audit::begin(database);
        if scenario == Scenario::Load {
            load::fill(database);
        }
    });
    if scenario == Scenario::Rolling && options.passes_on {
        installation.follow_readiness(PROBES);
    }
    installation.connect_livekit(random.u64(..));
    let (journal, phases) = (Arc::new(Journal::default()), Phases::default());
    phases.begin();
    let receivers = receivers(&installation, &phases, &mut random);
    let stop = Arc::new(AtomicBool::new(false));
    let clients = clients(
        &installation,
        options,
        &receivers,
        (&journal, &stop),
        &mut random,
    );
    let (mut rounds, mut late, mut exits) = (Vec::new(), Vec::new(), vec![0; NODES]);
    for number in 1..=options.rounds.unwrap_or_else(|| scenario.rounds()) {
        work(&journal, &mut random);
        let before = journal.len();
        let mut round = perform(
            scenario,
            options,
            (&installation, &journal, &phases),
            number,
            &mut late,
        );
        let all: Vec<_> = installation
            .nodes
            .iter()
            .map(|node| node.exits().len())
            .collect();
        round.exits = all
            .iter()
            .zip(&exits)
            .map(|(all, before)| all - before)
            .collect();
        exits = all;
        progress(&round, journal.len() - before);
        rounds.push(round);
    }
    work(&journal, &mut random);
    stop.store(true, Ordering::SeqCst);
    clients
        .into_iter()
        .for_each(|client| client.join().expect("a client that does not panic"));
    let connected = installation.livekit.connected();
    wait_for(
        || installation.livekit.webhook_outcomes().pending == 0,
        "LiveKit's webhooks",
    );
    let ending = SystemTime::now();
    let lost_load = lost_load(scenario, &installation);
    let records = settle(&installation.active_api());
    phases.end();
    let evidence = Evidence {
        scenario,
        passes_on: options.passes_on,
        is_timed: options.is_timed,
        entries: journal.entries(),
        rounds,
        late,
        connected,
        webhooks: installation.livekit.webhook_outcomes(),
        writers: audit::writers(&installation.postgres),
        marked_twice: audit::marked_twice(&installation.postgres),
        ending,
    };
    let mut violations = checks::of_cluster(&evidence, &receivers, &records, &phases.all());
    violations.extend(lost_load);
    report(&evidence, &receivers, &records, violations)
}

fn receivers(
    installation: &Installation,
    phases: &Phases,
    random: &mut fastrand::Rng,
) -> Vec<Receiver> {
    let api = installation.active_api();
    let start = |refuses| {
        let phases = phases.clone();
        let (seed, lifetime) = (random.u64(..), move || phases.current());
        Receiver::start(refuses, seed, lifetime, |url| api.create_endpoint(url))
    };
    // One accepts everything, in order; one refuses some requests, which are then repeated.
    [0.0, 0.1].map(start).into()
}

fn clients(
    installation: &Installation,
    options: &ClusterOptions,
    receivers: &[Receiver],
    (journal, stop): (&Arc<Journal>, &Arc<AtomicBool>),
    random: &mut fastrand::Rng,
) -> Vec<JoinHandle<()>> {
    let mut endpoints = receivers.iter().map(EndpointOwner::new);
    let spawn = |number| {
        let service = Balancer::new(
            &installation.nodes,
            &installation.livekit,
            &installation.key,
            random.u64(..),
        );
        let (seed, endpoint) = (random.u64(..), endpoints.next());
        Client::spawn(number, seed, service, endpoint, journal, stop)
    };
    (0..options.clients).map(spawn).collect()
}

/// Waits while the clients work.
fn work(journal: &Journal, random: &mut fastrand::Rng) {
    let acknowledged = journal.acknowledged();
    let (shortest, longest) = UPTIME;
    thread::sleep(shortest + (longest - shortest).mul_f64(random.f64()));
    wait_for(
        || journal.acknowledged() >= acknowledged + LEAST_ACKNOWLEDGED,
        "acknowledged requests",
    );
}

fn wait_for(holds: impl Fn() -> bool, what: &str) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < WAIT_LIMIT,
            "{what} are still missing after {} s",
            WAIT_LIMIT.as_secs()
        );
        thread::sleep(INTERVAL);
    }
}

/// Causes one fault and waits until the cluster is whole again.
fn perform(
    scenario: Scenario,
    options: &ClusterOptions,
    (installation, journal, phases): (&Installation, &Journal, &Phases),
    number: u32,
    late: &mut Vec<LateRequest>,
) -> Round {
    let (active, before) = installation.settle();
    let duration = options.duration.unwrap_or_else(|| scenario.duration());
    let next = version(options, installation, number);
    let passes_on = options.passes_on;
    let run = Run {
        installation,
        journal,
        phases,
        passes_on,
        duration,
        next,
        entries_of_round: journal.len(),
    };
    let began = Instant::now();
    phases.end();
    let fault = faults::make(scenario, &run, active, number);
    let (_, after) = installation.settle();
    let ended = Instant::now();
    phases.begin();
    late.extend(fault.late);
    Round {
        number,
        failed: fault.failed,
        began,
        ended,
        writes_after: fault.writes_after,
        epochs: (before, after),
        ends_again: fault.ended_again,
        exits: Vec::new(),
        violations: fault.violations,
    }
}

/// Returns the replacement program in a round: with mixed versions, it has a migration for each round so far.
fn version(options: &ClusterOptions, installation: &Installation, round: u32) -> Version {
    let path = |migration: u32| {
        let path = installation
            .folder
            .path()
            .join(format!("further-{migration}.sql"));
        let text =
            format!("ALTER TABLE projects ADD COLUMN further_{migration} TEXT COLLATE \"C\"");
        std::fs::write(&path, text).expect("a file that can be written");
        path.display().to_string()
    };
    Version {
        binary: options
            .next
            .as_ref()
            .map(|next| std::path::absolute(next).expect("a path of a program")),
        migrations: options
            .is_mixed
            .then(|| (1..=round).map(path).collect::<Vec<_>>().join(":")),
    }
}

/// Reports the other projects' rooms that are no longer open; `None` if all are open.
fn lost_load(scenario: Scenario, installation: &Installation) -> Option<String> {
    if scenario != Scenario::Load {
        return None;
    }
    let open = load::open_rooms(&installation.postgres);
    (open != load::rooms()).then(|| format!("{open} of {} rooms are open", load::rooms()))
}

fn report(
    evidence: &Evidence,
    receivers: &[Receiver],
    records: &Records,
    violations: Vec<String>,
) -> ClusterReport {
    let acknowledged = evidence
        .entries
        .iter()
        .filter(|entry| entry.acknowledged().is_some())
        .count();
    let mut times: Vec<_> = evidence
        .rounds
        .iter()
        .filter_map(|round| round.writes_after)
        .collect();
    times.sort_unstable();
    ClusterReport {
        scenario: evidence.scenario,
        rounds: evidence.rounds.len(),
        times,
        requests: evidence.entries.len(),
        acknowledged,
        failed: evidence
            .entries
            .iter()
            .filter(|entry| entry.has_failed())
            .count(),
        slowest: checks::cluster::p99(evidence),
        rooms: records.rooms.len(),
        sessions: records.sessions.len(),
        deliveries: records.deliveries.len(),
        posts: receivers
            .iter()
            .map(|receiver| receiver.received().len())
            .sum(),
        livekit_webhooks: evidence.webhooks.accepted,
        repeated_livekit_webhooks: evidence.webhooks.repeated,
        epochs: evidence.rounds.last().map_or(0, |round| round.epochs.1),
        violations,
    }
}
