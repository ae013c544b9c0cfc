//! A whole installation on loopback: nodes, database, LiveKit, each link through a proxy.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use livekit_double::Double;
use parking_lot::Mutex;
use serde_json::Value;

use super::node::{Lease, Links, Node};
use super::postgres::Postgres;
use super::process::Launch;
use super::{ClusterOptions, balancer};
use crate::api::Api;

/// Number of nodes.
pub const NODES: usize = 3;
/// Time limit until one node is active and the others are standbys.
const WAIT_LIMIT: Duration = Duration::from_secs(120);
/// The active node's response timeout after the last round.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which processes are supervised.
const SUPERVISION: Duration = Duration::from_millis(20);

/// The nodes and their services. All processes end when it is dropped.
pub struct Installation {
    pub postgres: Postgres,
    pub livekit: Double,
    pub nodes: Arc<[Node]>,
    /// A project's key.
    pub key: String,
    /// Threads that supervise the processes.
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// The programs' files; removed when the installation is dropped.
    pub folder: tempfile::TempDir,
}

impl Installation {
    /// Starts the nodes, and waits until one is active and the others are standbys. `prepare` fills the database between the first start,
    /// which creates the tables, and the start of the cluster.
    pub fn start(
        options: &ClusterOptions,
        is_replicated: bool,
        prepare: impl FnOnce(&Postgres),
    ) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let binary = std::path::absolute(&options.binary).expect("a path of a program");
        let postgres = Postgres::start(is_replicated);
        let livekit = Double::start();
        let nodes = (0..NODES).map(|number| {
            let own = folder.path().join(number.to_string());
            std::fs::create_dir(&own).expect("a new directory");
            let api = livekit
                .url()
                .trim_start_matches("http://")
                .parse()
                .expect("an address");
            let links = Links::start(postgres.proxies(), api);
            let url = postgres.url(&links.database);
            let mut environment = environment(&links, &livekit, folder.path());
            if options.passes_on {
                environment.extend(pass_through(&links));
            }
            Node::new(
                number,
                links,
                Launch {
                    binary: binary.clone(),
                    folder: own,
                    environment,
                },
                url,
                options.passes_on,
            )
        });
        let nodes: Arc<[_]> = nodes.collect();
        let key = create_project(&nodes[0]);
        prepare(&postgres);
        let stop = Arc::new(AtomicBool::new(false));
        let threads = vec![repeat(&nodes, &stop, SUPERVISION, Node::supervise)];
        let mut installation = Self {
            postgres,
            livekit,
            nodes,
            key,
            threads,
            stop,
            folder,
        };
        installation.nodes.iter().for_each(Node::start);
        if !options.passes_on {
            installation.follow_readiness(SUPERVISION);
        }
        installation.settle();
        installation
    }

    /// Makes clients avoid nodes that are not ready, as a load balancer that probes them at this interval.
    pub fn follow_readiness(&mut self, interval: Duration) {
        self.threads.push(repeat(
            &self.nodes,
            &self.stop,
            interval,
            Node::follow_readiness,
        ));
    }

    /// Makes LiveKit report to a random node.
    pub fn connect_livekit(&self, seed: u64) {
        let nodes = Arc::clone(&self.nodes);
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        self.livekit.send_by_workers(move || {
            let (node, _) = balancer::choose(&nodes, &mut random.lock(), None)?;
            Some(format!(
                "http://{}/media/livekit/webhook",
                nodes[node].links.webhooks.address()
            ))
        });
    }

    /// Waits until one node is active and the others are standbys. Returns the active one and its epoch.
    ///
    /// # Panics
    /// The nodes take too long.
    pub fn settle(&self) -> (usize, i64) {
        self.settle_but(None)
    }

    /// Like [`Self::settle`], with a node that waits for its upgrade.
    pub fn settle_but(&self, outdated: Option<usize>) -> (usize, i64) {
        let began = Instant::now();
        loop {
            let leases: Vec<_> = self.nodes.iter().map(Node::lease).collect();
            if let Some(active) = active(&leases, outdated) {
                return active;
            }
            assert!(
                began.elapsed() < WAIT_LIMIT,
                "not one active node and standbys: {leases:?}\n{}",
                self.logs()
            );
            thread::sleep(SUPERVISION);
        }
    }

    /// Connections to the node that is active.
    pub fn active_api(&self) -> Api {
        let (active, _) = self.settle();
        let api = self.nodes[active]
            .addresses()
            .expect("a node that runs")
            .api;
        Api::new(&format!("http://{api}"), &self.key, TIMEOUT)
    }

    /// Returns the last lines from all nodes' logs.
    fn logs(&self) -> String {
        let end = |node: &Node| {
            let log = node.log();
            let lines: Vec<_> = log.lines().rev().take(20).collect();
            format!(
                "node {}:\n{}\n",
                node.number,
                lines.into_iter().rev().collect::<Vec<_>>().join("\n")
            )
        };
        self.nodes.iter().map(end).collect()
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads
            .drain(..)
            .for_each(|thread| drop(thread.join()));
        self.nodes.iter().for_each(|node| {
            // A stopped process continues first.
            if node.process_id().is_some() {
                node.kill();
            }
        });
    }
}

/// Runs an action for each node at an interval.
fn repeat(
    nodes: &Arc<[Node]>,
    stop: &Arc<AtomicBool>,
    interval: Duration,
    what: fn(&Node),
) -> JoinHandle<()> {
    let (nodes, stop) = (Arc::clone(nodes), Arc::clone(stop));
    thread::spawn(move || {
        while !stop.load(Ordering::SeqCst) {
            nodes.iter().for_each(what);
            thread::sleep(interval);
        }
    })
}

/// Returns the active node and its epoch, if all others are standbys, or `outdated` waits for its upgrade.
fn active(leases: &[Option<Lease>], outdated: Option<usize>) -> Option<(usize, i64)> {
    let mut active = None;
    for (number, lease) in leases.iter().enumerate() {
        let lease = lease.as_ref()?;
        match (lease.status.as_str(), outdated == Some(number)) {
            ("active", false) if active.is_none() => active = Some((number, lease.epoch?)),
            ("standby", false) | ("waiting_for_upgrade", true) => {}
            _ => return None,
        }
    }
    active
}

/// Returns settings for a node: quick webhook retries, no limits, frequent reconciliation.
fn environment(links: &Links, livekit: &Double, shared: &Path) -> Vec<(&'static str, String)> {
    let no_limit = || "1000000".to_owned();
    vec![
        (
            "CONCLAVE_ENCRYPTION__KEY_FILE",
            shared.join("encryption.key").display().to_string(),
        ),
        ("CONCLAVE_MEDIA__KIND", "livekit".to_owned()),
        (
            "CONCLAVE_MEDIA__URL",
            format!("http://{}", links.livekit.address()),
        ),
        ("CONCLAVE_MEDIA__API_KEY", livekit.api_key.clone()),
        ("CONCLAVE_MEDIA__API_SECRET", livekit.api_secret.clone()),
        ("CONCLAVE_MEDIA__RECONCILE", "5s".to_owned()),
        (
            "CONCLAVE_WEBHOOKS__ALLOW_NETWORKS",
            "127.0.0.0/8".to_owned(),
        ),
        ("CONCLAVE_WEBHOOKS__TICK", "100ms".to_owned()),
        (
            "CONCLAVE_WEBHOOKS__RETRY_DELAYS",
            "100ms,100ms,100ms,100ms,100ms,100ms,100ms,100ms".to_owned(),
        ),
        ("CONCLAVE_LIMITS__REQUESTS_PER_SECOND", no_limit()),
        ("CONCLAVE_LIMITS__BURST", no_limit()),
        ("CONCLAVE_LIMITS__EXCHANGE_PER_SECOND", no_limit()),
        ("CONCLAVE_LIMITS__EXCHANGE_BURST", no_limit()),
    ]
}

/// Returns settings for a node that forwards requests.
fn pass_through(links: &Links) -> [(&'static str, String); 2] {
    [
        (
            "CONCLAVE_CLUSTER__URL",
            format!("http://{}", links.nodes.address()),
        ),
        ("CONCLAVE_HTTP__TRUSTED_PROXIES", "127.0.0.0/8".to_owned()),
    ]
}

/// Runs a node to create the tables, then creates a project with a key. Returns the key.
fn create_project(node: &Node) -> String {
    node.start();
    let began = Instant::now();
    while node.lease().is_none_or(|lease| lease.status != "active") {
        assert!(
            began.elapsed() < WAIT_LIMIT,
            "the first node does not start: {}",
            node.log()
        );
        node.supervise();
        thread::sleep(SUPERVISION);
    }
    let created = |arguments: &[&str], field: &str| {
        let shown: Value = serde_json::from_str(&node.command(arguments)).expect("JSON");
        shown[field]
            .as_str()
            .unwrap_or_else(|| panic!("no {field}: {shown}"))
            .to_owned()
    };
    let project = created(
        &["project", "create", "--name", "cluster", "--json"],
        "project_id",
    );
    let key = created(&["key", "create", &project, "--json"], "key");
    node.stop();
    key
}

#[cfg(test)]
mod tests {
    use super::{Lease, active};

    fn lease(status: &str) -> Option<Lease> {
        Some(Lease {
            status: status.to_owned(),
            epoch: (status == "active").then_some(7),
        })
    }

    #[test]
    fn a_cluster_is_whole_with_one_active_node_and_all_others_as_standbys() {
        assert_eq!(
            active(&[lease("standby"), lease("active"), lease("standby")], None),
            Some((1, 7))
        );
        assert_eq!(
            active(&[lease("active"), lease("active"), lease("standby")], None),
            None
        );
        assert_eq!(
            active(
                &[lease("standby"), lease("standby"), lease("standby")],
                None
            ),
            None
        );
        assert_eq!(
            active(&[lease("active"), None, lease("standby")], None),
            None
        );
        assert_eq!(
            active(
                &[lease("active"), lease("wrong_keys"), lease("standby")],
                None
            ),
            None
        );
        let outdated = [
            lease("active"),
            lease("waiting_for_upgrade"),
            lease("standby"),
        ];
        assert_eq!(
            [None, Some(1), Some(2)].map(|node| active(&outdated, node)),
            [None, Some((0, 7)), None]
        );
    }
}
